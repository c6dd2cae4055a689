"""Signs of trouble that are more than a word in a file: silence, a limit passed, a result that should be there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ptb_tui.core.states import State
from ptb_tui.results.evidence import Hit
from ptb_tui.results.examined import GOOD, Case
from ptb_tui.results.foreign import age
from ptb_tui.results.regular import tail_bytes

SILENT_S = 1800.0  # of a trace, before somebody should look
IDLE_CPU, IDLE_GPU = 0.02, 5.0  # share of a core, percent
OVER_S = 600.0  # past a step's limit
EARLY = 0.1  # share of its time that an agent used
FOREIGN_QUIET_S = 12 * 3600.0


def _telemetry(path: Path) -> list[dict[str, Any]]:
    found = []
    for line in tail_bytes(path, 1 << 16).split(b"\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("mono"), int | float):
            found.append(value)
    return found


def _silent(case: Case) -> Hit | None:
    """Two signs together (case B08): nothing printed, and no work of processes or GPUs, over half an hour. Both times
    are those of the file system, so no two clocks are compared."""
    step = case.record.agent_step
    if step is None or step.state != State.RUNNING:
        return None
    path = case.record.path / case.place(step) / "telemetry.jsonl"
    try:
        quiet = os.lstat(path).st_mtime - os.lstat(case.record.path / "solve_out.txt").st_mtime
    except OSError:
        return None
    if quiet < SILENT_S:
        return None
    samples = _telemetry(path)
    recent = [sample for sample in samples if samples[-1]["mono"] - sample["mono"] <= quiet]
    if len(recent) < 2 or recent[-1]["mono"] - recent[0]["mono"] < SILENT_S / 2:
        return None
    jobs = [job for sample in (recent[0], recent[-1]) if isinstance(job := sample.get("job"), dict)]
    spent = [cpu for job in jobs if isinstance(cpu := job.get("cpu_s"), int | float)]
    used = [gpu.get("util_percent") for sample in recent for gpu in sample.get("gpus") or () if isinstance(gpu, dict)]
    if len(spent) == 2 and spent[1] - spent[0] > IDLE_CPU * (recent[-1]["mono"] - recent[0]["mono"]):
        return None
    if any(isinstance(value, int | float) and value > IDLE_GPU for value in used):
        return None
    return Hit(f"{case.place(step)}/telemetry.jsonl", f"nothing printed for {age(quiet)}, no work seen")


def _over_limit(case: Case) -> Hit | None:
    for step in case.record.steps:
        over = (step.seconds or 0.0) - (step.limit_s or 0.0) if step.limit_s else 0.0
        if step.state == State.RUNNING and over > OVER_S:
            return Hit(case.place(step), f"{step.name} is {age(over)} over its limit")
    return None


def _no_metrics(case: Case) -> Hit | None:
    values = case.record.values
    done = values.get("agent_done") and values.get("has_model") and values.get("accuracy") is None
    if not done or case.record.active or case.worth in (*GOOD, "quarantined", "eval_failed"):
        return None
    return Hit("metrics.json is missing", case.record.assessment.reason)


def _early(case: Case) -> Hit | None:
    used, step = case.record.values.get("seconds"), case.record.agent_step
    limit = step.limit_s if step is not None else None
    if case.worth != "no_model" or not isinstance(used, int | float) or not limit or used > EARLY * limit:
        return None
    return Hit("time_taken.txt", f"{age(used)} of {age(limit)}")


def _unfinished(case: Case) -> Hit | None:
    values = case.record.values
    if not case.record.foreign or values.get("agent_done") or case.worth != "missing":
        return None
    try:
        quiet = case.now - os.stat(case.record.path, follow_symlinks=False).st_mtime
    except OSError:
        return None
    return Hit("no time_taken.txt", case.record.assessment.reason) if quiet > FOREIGN_QUIET_S else None


SIGNS: Mapping[str, Callable[[Case], Hit | None]] = {
    "silent": _silent, "over_limit": _over_limit, "no_metrics": _no_metrics, "early": _early, "unfinished": _unfinished,
}  # fmt: skip
