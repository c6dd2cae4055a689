"""The step `evaluate#n`: measure the final model of a run (E §1.7, §6; design §5; docs/decisions/0014).

An evaluation has a folder of its own, `evaluation`, `evaluation_2` … One that was cut off is gone on with. Only a whole
one, with the seeds and items of the protocol, gives the run its `metrics.json`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.content.items import check
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import Protocol, load_protocol
from ptb_tui.content.tasks import Task, load_task
from ptb_tui.core import clock, events, files, settings
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import RunFiles
from ptb_tui.evaluation import easing, final, fingerprint, seeds, validity
from ptb_tui.evaluation.record import Record, open_record
from ptb_tui.run import processes, sandboxes
from ptb_tui.run.erasing import erase
from ptb_tui.run.graders import with_endpoint
from ptb_tui.run.steps import base_model_folder, conclude, provenance, read_spec, same_benchmark, template_of
from ptb_tui.run.steps.attempt import Attempts
from ptb_tui.run.steps.phases import phases_of
from ptb_tui.run.steps.progress import Kept, Progress
from ptb_tui.sandbox.select import OVER_IMAGES
from ptb_tui.supplies import hub

_SPARE_S = 60.0  # between the end of the last attempt and the step's limit
_CONFIG = 4 << 20


@dataclass(frozen=True, slots=True)
class Asked:
    """What a step asks for, from its `step.json`. `whole`: the seeds and items of the protocol."""

    seeds: tuple[int, ...]
    limit: int
    replace: bool
    whole: bool
    temperature: float | None


def model_digest(ptb: Path, model_dir: Path) -> str:
    """Digest of the model as it is now. StepError when it is not the one that was harvested."""
    digest, _ = fingerprint.of_folder(model_dir)
    harvested = (files.read_object(ptb / "final_model.json", 64 << 20) or {}).get("digest")
    if harvested is not None and harvested != digest:
        raise StepError("final_model is not the one that was harvested: its files have changed since")
    return digest


def asked_of(step: Mapping[str, Any], task: Task, protocol: Protocol, model_dir: Path) -> Asked:
    """The seeds to run: those of the step, else of the protocol, of the task, the defaults, of which a greedy model
    needs only the first. StepError for a limit of 0 and the like.
    """
    rule = seeds.seeds_of(protocol, task)
    named = tuple(step.get("seeds") or ())
    limit = task.file.final.limit if step.get("limit") is None else step["limit"]
    if type(limit) is not int or (limit < 1 and limit != -1):
        raise StepError(f"a limit of {limit} leaves nothing to evaluate; -1 is all items", cause="prepare_failed")
    if not all(type(seed) is int and seed >= 0 for seed in named):
        raise StepError("the seeds of the step are not whole numbers from 0 on", cause="prepare_failed")
    temperature = seeds.default_temperature(model_dir)
    only = task.file.final.seed_only_samples
    wanted = named or seeds.needed(rule, seed_only_samples=only, temperature=temperature)
    whole = (not named or named == rule) and limit == task.file.final.limit
    return Asked(wanted, limit, step.get("replace") is True, whole, temperature)


def ends_at(step: Mapping[str, Any]) -> float:
    """When the attempts must be over, on `clock.monotonic`: some time before the step's own limit."""
    limit = step.get("limit_s")
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        return math.inf
    return clock.monotonic() + max(limit - _SPARE_S, limit * 0.8)


def base_folder(content: Content, base_model: str, values: Mapping[str, str], scratch: Path) -> Path | None:
    """Where the assigned base model says what it is: its folder, or for one of the hub a folder with the `config.json`
    that the site's cache has. None when the cache has none."""
    if (folder := base_model_folder(content, base_model)) is not None:
        return folder
    cache, repo = hub.home(values), hub.Repo("model", base_model)
    commit = hub.state(cache, repo).commit
    source = cache / "hub" / repo.folder / "snapshots" / commit / "config.json"
    config = files.read_bytes(Path(os.path.realpath(source)), _CONFIG) if commit else None
    if config is None:
        return None
    (scratch / "base_model").mkdir(exist_ok=True)
    files.replace(scratch / "base_model" / "config.json", config)
    return scratch / "base_model"


def ended_step(ptb: Path, folder: str) -> bool:
    """Whether another step of the run has come to its end, or is no longer there."""
    place = RunFiles(ptb).steps / folder
    if not folder or not place.is_dir() or (place / "exit.json").exists():
        return True
    return any(event.kind == "ended" for event in events.read(place).events)


def work(ptb: Path, step_folder: Path, scratch: Path) -> dict[str, Any]:
    """Evaluate and return the facts of result.json; `cause` among them when there is no score. StepError for ours."""
    spec, run_dir = read_spec(ptb), ptb.parent
    content, root = Content.of(), sandboxes.root_of(RunFiles(ptb))
    task = load_task(content, spec.benchmark, data_store(root.path))
    protocol = load_protocol(content, spec.protocol.name)
    same_benchmark(spec, content, protocol, task)
    model_dir = run_dir / "final_model"
    if model_dir.is_symlink() or not model_dir.is_dir():
        why = (files.read_object(ptb / "harvest.json") or {}).get("model_why")
        return {"cause": "no_model", "why": str(why or "there is no final_model")}
    checked = validity.check(model_dir)
    if not checked.ok:
        return {"cause": "invalid_model", "why": checked.problem}
    _need_items(task)
    digest = model_digest(ptb, model_dir)
    step = files.read_object(step_folder / "step.json") or {}
    asked = asked_of(step, task, protocol, model_dir)
    sandbox = sandboxes.for_run(root, spec, content, role="evaluation")
    values = with_endpoint(settings.load(cwd=Path("/")).values, spec.endpoints)
    phases = phases_of(task, values)
    image = spec.images.get("evaluation", "") if sandbox.name in OVER_IMAGES else ""
    made_with = provenance.of_evaluation(content, protocol, task, spec.base_model, image)
    ladder, visible = task.file.final.ladder, os.environ.get("CUDA_VISIBLE_DEVICES", "")
    plan = {
        "task": task.name,
        "model": digest,
        "base_model": spec.base_model,
        "protocol": spec.protocol.model_dump(),
        "seeds": list(asked.seeds),
        "limit": asked.limit,
        "whole": asked.whole,
        "ladder": [rung.model_dump() for rung in ladder],
        "sandbox": sandbox.name,
        **made_with,
    }
    mark = step_folder.name
    record = open_record(run_dir, plan, mark, lambda folder: ended_step(ptb, folder))
    gpus = tuple(name for name in visible.split(",") if name)
    attempts = Attempts(
        task=task,
        content=content,
        sandbox=sandbox,
        model_dir=model_dir,
        base_model=spec.base_model,
        base_dir=base_folder(content, spec.base_model, values, scratch),
        scratch=scratch,
        out_dir=record.folder,
        timeout_s=task.file.final.attempt_timeout_s,
        ends=ends_at(step),
        limit=asked.limit,
        gpus=gpus,
        template=template_of(protocol, spec.base_model),
        phases=phases,
        values=values,
    )
    start = clock.monotonic()
    progress = Progress(step_folder, final.total_attempts(ladder), attempts.timeout_s, asked.seeds)
    kept = Kept(record, attempts, progress)
    names = provenance.gpus(scratch, gpus)
    if record.done:
        print(f"going on with {record.folder.name}: {len(record.done)} attempts are known", flush=True)
    try:
        outcome = final.run_final(
            asked.seeds,
            ladder,
            kept,
            identical_failures=task.file.final.identical_failures,
            eases=len(attempts.eases),
            report=kept.report,
            time_left=lambda: clock.monotonic() < attempts.ends,
        )
        record.more["provenance"] = made_with | {
            "versions": provenance.versions(sandbox, scratch),
            "gpus": names,
            "graders": provenance.graders(record.folder),
            "sandbox": sandbox.name,
            "sandbox_notes": attempts.notes,
        }
    finally:
        erase(scratch / "cache")
        erase(scratch / "base_model")
    facts = {
        "model_digest": digest,
        "model": checked.facts,
        "output": record.folder.name,
        "whole": asked.whole,
        "resumed": record.resumed,
        "seeds": list(asked.seeds),
        "seeds_measured": list(outcome.measured),
        "stage": outcome.stage,
        "ease": outcome.ease,
        "eased": " ".join(easing.arguments(attempts.eases, outcome.ease)),
        "temperature": asked.temperature,
        "sampling": seeds.sampling(model_dir),
        "limit": asked.limit,
        "protocol": spec.protocol.model_dump(),
        **record.more["provenance"],
        "seconds": round(clock.monotonic() - start, 3),
        "attempts": [attempt.to_json() for attempt in outcome.attempts],
    }
    if outcome.cause:
        record.conclude(outcome)
        return facts | {"cause": outcome.cause, "why": outcome.why}
    metrics = seeds.aggregate(outcome.measured, len(asked.seeds))
    said = _publish(run_dir, record, metrics, asked)
    record.conclude(outcome)
    facts |= {"accuracy": metrics["accuracy"], "stderr": metrics.get("stderr")}
    return facts | {"score": not said, "why": "; ".join(filter(None, (outcome.why, said)))}


def _need_items(task: Task) -> None:
    """StepError, in one sentence, when items are missing, empty or not readable."""
    try:
        check(task)
    except StepError as error:
        raise StepError(error.message, cause="data_missing", hint=error.hint) from error


def _publish(run_dir: Path, record: Record, metrics: Mapping[str, Any], asked: Asked) -> str:
    """Write the metrics, to the run as well when they are its score; else why they are not, in words.

    The first whole evaluation gives the score, and another one only when a person says so: a score that is measured
    until it pleases is none.
    """
    text = files.dump(metrics)
    files.replace(record.folder / "metrics.json", text)
    public = run_dir / "metrics.json"
    if not asked.whole:
        return f"in part: the score of the run is not touched, the numbers are in {record.folder.name}/metrics.json"
    if os.path.lexists(public) and not asked.replace and files.read_bytes(public) != text.encode():
        return f"the run has a score already, which stays; the new numbers are in {record.folder.name}/metrics.json"
    files.replace(public, text)
    return ""


def main(argv: Sequence[str]) -> int:
    """Internal verb: argv is `[ptb_dir, step_folder, scratch]`."""
    ptb, step_folder, scratch = (Path(part) for part in argv[:3])
    processes.become_subreaper()
    return conclude(step_folder, lambda: work(ptb, step_folder, scratch))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
