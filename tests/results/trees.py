"""Makes results trees as a supervisor and the original scripts leave them."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ptb_tui.core import events, names
from ptb_tui.core.layout import Root, RunFiles, StepName
from ptb_tui.core.spec import JudgePlan, ProtocolRef, RunSpec
from ptb_tui.results.verdicts import KNOWN

MODELS = ("Qwen/Qwen3-1.7B-Base", "Qwen/Qwen3-4B-Base", "HuggingFaceTB/SmolLM3-3B-Base", "google/gemma-3-4b-pt")
JUDGES = (
    JudgePlan(judge="data_contamination_judge", engine="rules", effect="baseline"),
    JudgePlan(judge="api_usage_judge", engine="rules", effect="baseline"),
    JudgePlan(judge="ptb_lookup_judge", engine="rules", effect="quarantine"),
    JudgePlan(judge="general_judge", engine="rules"),
)
CLEAN: Mapping[str, tuple[str, ...]] = {judge.judge: () for judge in JUDGES}


def spec(run_id: int, **changes: Any) -> RunSpec:
    fields: dict[str, Any] = {
        "id": run_id,
        "agent": "reference",
        "config": "steps300",
        "benchmark": "demo",
        "base_model": "local/demo-base",
        "hours": 0.1,
        "gpus": 0,
        "protocol": ProtocolRef(name="demo", fingerprint="f1"),
        "judges": JUDGES,
        "created": f"2026-08-01T00:00:{run_id % 60:02d}.000Z",
    }
    return RunSpec(**{**fields, **changes})


def verdict_text(judge: str, flagged: Sequence[str] = (), why: str = "looked at everything") -> str:
    schema = KNOWN[judge]
    fields: dict[str, Any] = {flag: flag in flagged for flag in schema.flags}
    return json.dumps({**fields, **{f"justification_{flag}": why for flag in schema.flags}})


def write_verdicts(run_dir: Path, verdicts: Mapping[str, Sequence[str]], why: str = "looked at everything") -> None:
    for judge, flagged in verdicts.items():
        (run_dir / f"judgement_{KNOWN[judge].output_id}.json").write_text(verdict_text(judge, flagged, why))


def step(
    run: RunFiles, number: int, name: StepName, *, state: str = "done", cause: str = "", start: str = "",
    facts: Mapping[str, Any] | None = None, wait: Sequence[Mapping[str, Any]] = (), seconds: float = 60.0,
) -> Path:  # fmt: skip
    """`state`: queued, running, or an outcome."""
    folder = run.steps / name.folder(number)
    folder.mkdir(parents=True)
    body = {"v": 1, "kind": name.kind, "judge": name.judge, "n": name.n, "limit_s": 660.0, "wait": list(wait)}
    (folder / "step.json").write_text(json.dumps(body))
    lines = []
    if state != "queued":
        lines.append(events.encode("claimed", 1, {}))
        lines.append(events.encode("started", 2, {}))
    if state not in ("queued", "running"):
        if name.kind == "agent":
            lines.append(events.encode("harvested", 3, dict(facts or {})))
        lines.append(events.encode("ended", 4, {"outcome": state, "cause": cause}))
        if state == "done":
            record = {"v": 1, "rc": 0, "stopped": "", "elapsed_s": seconds}
            (folder / "exit.json").write_text(json.dumps(record))
    data = b"".join(lines)
    if start:
        data = b"".join(_restamped(line, start) for line in lines)
    if data:
        (folder / "events.jsonl").write_bytes(data)
    return folder


def _restamped(line: bytes, start: str) -> bytes:
    event = events.decode(line)
    assert event is not None
    moment = datetime.fromisoformat(start.replace("Z", "+00:00")).timestamp()
    return events.encode(event.kind, event.seq, event.data, now=moment)


def own_run(
    root: Root, run_id: int, *, outcome: str = "done", cause: str = "", evaluation: str = "done", eval_cause: str = "",
    metrics: str | None = '{"accuracy": 0.7, "stderr": 0.01}', verdicts: Mapping[str, Sequence[str]] | None = CLEAN,
    model: bool = True, place: str = "run", start: str = "", why: str = "looked at everything", **changes: Any,
) -> Path:  # fmt: skip
    """A run of ours; returns its folder: the run directory, or the one below `_ptb/`."""
    run_spec = spec(run_id, **changes)
    run = root.run(run_spec.method, run_spec.run) if place == "run" else RunFiles(root.own(place) / str(run_id))
    run.steps.mkdir(parents=True)
    run.spec.write_text(run_spec.model_dump_json())
    step(run, 1, StepName("agent"), state=outcome, cause=cause, start=start)
    number = 2
    for judge in run_spec.judges:
        state = "done" if outcome == "done" and verdicts is not None else "queued"
        step(run, number, StepName("judge", judge.judge), state=state)
        number += 1
    step(run, number, StepName("evaluate"), state=evaluation if outcome == "done" else "queued", cause=eval_cause)
    if place != "run":
        if outcome == "cancelled":
            run.cancel.write_text("{}")
        return run.ptb
    folder = run.run_dir
    if outcome == "done":
        (folder / "time_taken.txt").write_text("01:02:03\n")
        if model:
            (folder / "final_model").mkdir()
            (folder / "final_model" / "config.json").write_text("{}")
        if metrics is not None:
            (folder / "metrics.json").write_text(metrics)
        write_verdicts(folder, verdicts or {}, why)
    return folder


def foreign_run(
    root: Root, method: str, benchmark: str, model: str, run_id: int, *, metrics: str | None = '{"accuracy": 0.5}',
    time_taken: str | None = "09:59:59\n", verdicts: Mapping[str, Sequence[str]] = CLEAN, started: str = "",
    harvested: bool = True, final_model: bool = True,
) -> Path:  # fmt: skip
    folder = root.path / method / f"{benchmark}_{names.safe(model)}_{run_id}"
    folder.mkdir(parents=True)
    stamp = f"{started}\n" if started else ""
    (folder / "output.log").write_text(f"{benchmark} codex {model} {run_id} 10 gpt-5.1 1\ngrader openai\n{stamp}")
    if harvested:
        (folder / "task").mkdir()
    if final_model:
        (folder / "final_model").mkdir()
        (folder / "final_model" / "config.json").write_text("{}")
    if metrics is not None:
        (folder / "metrics.json").write_text(metrics)
    if time_taken is not None:
        (folder / "time_taken.txt").write_text(time_taken)
    write_verdicts(folder, verdicts)
    return folder


def settle(path: Path, seconds: float = 60.0) -> None:
    """Set every time stamp of a tree back, as if it had been left alone."""
    for folder, _, names_ in os.walk(path, topdown=False):
        for name in names_:
            old = os.lstat(os.path.join(folder, name)).st_mtime - seconds
            os.utime(os.path.join(folder, name), (old, old), follow_symlinks=False)
        old = os.stat(folder).st_mtime - seconds
        os.utime(folder, (old, old))
