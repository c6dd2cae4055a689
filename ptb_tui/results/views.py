"""Records as the rows and details that front ends get (`core.query`)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptb_tui.core.layout import Root
from ptb_tui.results.records import RunRecord, StepRecord, shown_step

if TYPE_CHECKING:
    from ptb_tui.core.query import RunDetail, RunRow

_MAX_FILES = 2000


def row_values(record: RunRecord) -> dict[str, Any]:
    """The fields of a `RunRow` as plain values; costs no pydantic model.

    Score is the measured accuracy. `seconds` and `remaining` are those of the step that the row shows.
    """
    step = shown_step(record.steps)
    flags = list(step.flags) if step else []
    flags += [flag for other in record.steps for flag in other.flags if flag == "model at risk" and flag not in flags]
    seconds = step.seconds if step else record.values.get("seconds")
    remaining = None
    if step and not step.ended and step.limit_s is not None:
        remaining = max(0.0, step.limit_s - (seconds or 0.0))
    kind, _, letters, reason, _ = record.assessment
    return {
        "id": record.id,
        "method": record.method,
        "benchmark": record.benchmark,
        "model": record.model,
        "origin": record.origin,
        "path": record.relative,
        "state": step.state if step else "",
        "step": step.name if step else "",
        "phase": step.phase if step else "",
        "cause": step.cause if step else "",
        "flags": tuple(flags),
        "worth": str(kind),
        "reason": reason,
        "letters": letters,
        "score": record.values.get("accuracy"),
        "created": record.created,
        "seconds": seconds,
        "remaining": remaining,
        "sweep": record.sweep,
        "sweep_name": record.sweep_name,
        "steps_ended": sum(step.ended for step in record.steps),
        "steps_total": len(record.steps),
    }


def row(record: RunRecord) -> RunRow:
    """One run in a list."""
    from ptb_tui.core.rows import RunRow

    return RunRow.model_construct(**row_values(record))


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Names below a run directory with sizes: its files, and one level of its folders. Links are not followed."""
    pending = [("", folder)]
    left = _MAX_FILES
    while pending:
        prefix, current = pending.pop()
        try:
            with os.scandir(current) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(info.st_mode):
                        yield prefix + entry.name, info.st_size
                        left -= 1
                    elif stat.S_ISDIR(info.st_mode) and not prefix and entry.name != ".ptb":
                        pending.append((entry.name + "/", Path(entry.path)))
                    if left <= 0:
                        return
        except OSError:
            continue


def _view(step: StepRecord) -> dict[str, Any]:
    names = ("number", "name", "state", "cause", "phase", "why", "flags", "started", "seconds", "limit_s")
    return {name: getattr(step, name) for name in names}


def _telemetry(record: RunRecord) -> dict[str, Any] | None:
    """The last line of the telemetry of the newest step that has any."""
    from ptb_tui.results.regular import last_object

    if record.ptb is None:
        return None
    for number, _, folder in reversed(_folders(record)):
        found = last_object(folder / "telemetry.jsonl")
        if found is not None:
            return {**found, "step_number": number}
    return None


def _folders(record: RunRecord) -> list[tuple[int, Any, Path]]:
    from ptb_tui.core.layout import RunFiles

    return RunFiles(record.ptb).step_folders() if record.ptb else []


def detail(root: Root, record: RunRecord) -> RunDetail:
    """Everything about one run. Reads metrics, file sizes and telemetry afresh."""
    from ptb_tui.core.query import RunDetail, StepView
    from ptb_tui.evaluation.seeds import spread_of
    from ptb_tui.results.metrics import read_metrics

    started = record.place == "run"
    metrics = read_metrics(record.path).raw if started else None
    facts = record.facts
    assessment = record.assessment
    return RunDetail(
        row=row(record),
        spec=record.spec or {},
        steps=tuple(StepView(**_view(step)) for step in record.steps),
        verdicts=facts.verdicts,
        metrics=metrics,
        spread=spread.to_json() if (spread := spread_of(metrics)) is not None else None,
        files=dict(_files(record.path)) if started else {},
        telemetry=_telemetry(record),
        facts={
            **facts.model_dump(mode="json", exclude={"verdicts"}),
            "path": os.fspath(root.path / record.relative),
            "started": record.started,
            "protocol": record.protocol,
            "fingerprint": record.fingerprint,
            "policy": assessment.policy,
            "evidence": list(assessment.evidence),
            "problems": list(record.problems),
        },
    )
