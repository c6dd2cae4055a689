"""The step `evaluate#n`: measure the final model of a run (E §1.7, §6; design §5).

An evaluation has a folder of its own, `evaluation`, `evaluation_2` …; only a success writes the run's `metrics.json`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import Protocol, load_protocol
from ptb_tui.content.tasks import Task, load_task
from ptb_tui.core import clock, files, settings
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import RunFiles
from ptb_tui.evaluation import final, fingerprint, seeds, validity
from ptb_tui.run import processes, sandboxes
from ptb_tui.run.erasing import erase
from ptb_tui.run.steps import base_model_folder, conclude, read_spec
from ptb_tui.run.steps.attempt import Attempts
from ptb_tui.run.telemetry import Sampler
from ptb_tui.sandbox.base import Request, Sandbox
from ptb_tui.sandbox.select import OVER_IMAGES

_SPARE_S = 60.0  # between the end of the last attempt and the step's limit
_ASK = """
import importlib.metadata, json, platform, sys
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""
_PACKAGES = ("inspect-ai", "vllm", "torch", "transformers", "safetensors")


def versions(sandbox: Sandbox, scratch: Path) -> dict[str, str]:
    """Versions of what measures, without importing it, asked in the sandbox; packages that are not installed are
    absent, and everything is when the sandbox does not answer."""
    place = scratch / "versions"
    (place / "home").mkdir(parents=True)
    inside = sandbox.home_inside(place / "home")
    env = {"PATH": ":".join(sandbox.path()), "HOME": inside, "PYTHONNOUSERSITE": "1"}
    argv = (sandbox.python(), "-c", _ASK, *_PACKAGES)
    command = sandbox.command(Request(argv, place / "home", ".", env=env, scratch=place / "sandbox"))
    try:
        done = subprocess.run(
            command.argv, env=command.env, cwd=command.cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=300
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"the sandbox does not tell its versions: {error}", flush=True)
        return {}
    finally:
        erase(place)
    return {str(name): str(version) for name, version in found.items()}


def model_digest(ptb: Path, model_dir: Path) -> str:
    """Digest of the model as it is now. StepError when it is not the one that was harvested."""
    digest, _ = fingerprint.of_folder(model_dir)
    harvested = (files.read_object(ptb / "final_model.json", 64 << 20) or {}).get("digest")
    if harvested is not None and harvested != digest:
        raise StepError("final_model is not the one that was harvested: its files have changed since")
    return digest


def seeds_for(task: Task, protocol: Protocol, model_dir: Path) -> tuple[tuple[int, ...], float | None]:
    """The seeds to run and the model's own temperature: of the protocol, else of the task, else the defaults."""
    wanted = protocol.seeds.get(task.name) or task.file.final.seeds or seeds.default_seeds(task.name)
    temperature = seeds.default_temperature(model_dir)
    only = task.file.final.seed_only_samples
    return seeds.needed(wanted, seed_only_samples=only, temperature=temperature), temperature


def template_hash(content: Content, protocol: Protocol, base_model: str) -> dict[str, str]:
    """Name and sha256 of the chat template that the organiser assigned to the base model; empty when unknown."""
    name = protocol.templates.get(base_model, "")
    path = content.file(f"tasks/templates/{name}") if name else None
    if path is None:
        return {}
    return {"name": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def show_gpu_holders(scratch: Path) -> None:
    """Print who holds the GPUs before the first attempt, for a start that fails for memory (case C01)."""
    for line in Sampler([], scratch, ()).sample().get("gpu_processes", ()):
        print(f"on the GPU: {line}", flush=True)


def ends_at(step_folder: Path) -> float:
    """When the attempts must be over, on `clock.monotonic`: some time before the step's own limit."""
    limit = (files.read_object(step_folder / "step.json") or {}).get("limit_s")
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        return math.inf
    return clock.monotonic() + max(limit - _SPARE_S, limit * 0.8)


class _Progress:
    """One line for each attempt in the step's log, and `progress.json` for whoever watches (case A20)."""

    def __init__(self, step_folder: Path, of: int, limit_s: float) -> None:
        self.path, self.of, self.limit_s = step_folder / "progress.json", of, limit_s
        self.last = ""

    def __call__(self, attempt: final.Attempt) -> None:
        """Called before and after each attempt."""
        tokens = f", at most {attempt.max_tokens} tokens" if attempt.max_tokens is not None else ""
        where = f"seed {attempt.seed}: attempt {attempt.n} of {self.of}, stage {attempt.stage}{tokens}"
        if attempt.result is None:
            print(where, flush=True)
        elif attempt.result.metrics is not None:
            self.last = f"accuracy {attempt.result.metrics['accuracy']:.4f}"
            print(f"{where}: {self.last} after {attempt.result.seconds:.0f} s", flush=True)
        else:
            self.last = attempt.result.words
            print(f"{where}: failed after {attempt.result.seconds:.0f} s: {self.last}", flush=True)
        record = {
            "v": 1,
            "attempt": attempt.n,
            "of": self.of,
            "seed": attempt.seed,
            "stage": attempt.stage,
            "max_tokens": attempt.max_tokens,
            "running": attempt.result is None,
            "limit_s": self.limit_s,
            "last": self.last,
            "t": clock.utc_text(),
        }
        files.replace(self.path, files.dump(record))


def work(ptb: Path, step_folder: Path, scratch: Path) -> dict[str, Any]:
    """Evaluate and return the facts of result.json; `cause` among them when there is no score. StepError for ours."""
    spec, run_dir = read_spec(ptb), ptb.parent
    content = Content.of()
    task, protocol = load_task(content, spec.benchmark), load_protocol(content, spec.protocol.name)
    model_dir = run_dir / "final_model"
    if model_dir.is_symlink() or not model_dir.is_dir():
        why = (files.read_object(ptb / "harvest.json") or {}).get("model_why")
        return {"cause": "no_model", "why": str(why or "there is no final_model")}
    checked = validity.check(model_dir)
    if not checked.ok:
        return {"cause": "invalid_model", "why": checked.problem}
    if task.info.required_api_keys:
        raise StepError(f"task {task.name} needs a paid grader, which this version lacks", cause="grading_incomplete")
    digest = model_digest(ptb, model_dir)
    chosen, temperature = seeds_for(task, protocol, model_dir)
    sandbox = sandboxes.for_run(sandboxes.root_of(RunFiles(ptb)), spec, content, role="evaluation")
    base_dir = base_model_folder(content, spec.base_model)
    ladder = task.file.final.ladder
    out_dir = final.new_output(run_dir)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    attempts = Attempts(
        task=task,
        content=content,
        sandbox=sandbox,
        model_dir=model_dir,
        base_model=spec.base_model,
        base_dir=base_dir,
        scratch=scratch,
        out_dir=out_dir,
        timeout_s=task.file.final.attempt_timeout_s,
        ends=ends_at(step_folder),
        limit=task.file.final.limit,
        gpus=tuple(name for name in visible.split(",") if name),
        keys=grading_keys(task),
    )
    start, ends = clock.monotonic(), attempts.ends
    show_gpu_holders(scratch)
    outcome = final.run_final(
        chosen,
        ladder,
        attempts,
        identical_failures=task.file.final.identical_failures,
        report=_Progress(step_folder, final.total_attempts(ladder), attempts.timeout_s),
        time_left=lambda: clock.monotonic() < ends,
    )
    facts: dict[str, Any] = {
        "model_digest": digest,
        "model": checked.facts,
        "output": out_dir.name,
        "sandbox": sandbox.name,
        "sandbox_notes": attempts.notes,
        "seeds": list(chosen),
        "seeds_measured": list(outcome.measured),
        "stage": outcome.stage,
        "temperature": temperature,
        "limit": attempts.limit,
        "template": template_hash(content, protocol, spec.base_model),
        "protocol": spec.protocol.model_dump(),
        "versions": versions(sandbox, scratch),
        "image": spec.images.get("evaluation", "") if sandbox.name in OVER_IMAGES else "",
        "seconds": round(clock.monotonic() - start, 3),
        "attempts": [attempt.to_json() for attempt in outcome.attempts],
    }
    if outcome.cause:
        return facts | {"cause": outcome.cause, "why": outcome.why}
    metrics = seeds.aggregate(outcome.measured, len(chosen))
    text = files.dump(metrics)
    files.replace(out_dir / "metrics.json", text)
    files.replace(run_dir / "metrics.json", text)
    return facts | {"accuracy": metrics["accuracy"], "stderr": metrics.get("stderr"), "why": outcome.why}


def grading_keys(task: Task) -> dict[str, str]:
    """Values of the keys that the task's own grader needs, and no others."""
    known = settings.load(cwd=Path("/")).values
    return {name: known[name] for name in task.info.required_api_keys if known.get(name)}


def main(argv: Sequence[str]) -> int:
    """Internal verb: argv is `[ptb_dir, step_folder, scratch]`."""
    ptb, step_folder, scratch = (Path(part) for part in argv[:3])
    processes.become_subreaper()
    return conclude(step_folder, lambda: work(ptb, step_folder, scratch))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
