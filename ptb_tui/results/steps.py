"""Reading the steps of one run of ours: every file of a step folded to a `StepRecord` (design §5).

Standard library alone. A file that cannot be understood is a problem in words, never an exception.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, events
from ptb_tui.core.layout import Root, RunFiles, StepName
from ptb_tui.core.states import Observation, State, StepFiles, StepState, Strength, fold
from ptb_tui.results.records import StepRecord
from ptb_tui.results.regular import read_record, read_regular

_OBSERVED_LIMIT = 4 << 20
_EVENTS_LIMIT = 32 << 20
_PLAIN = (str, int, float, bool, type(None))  # long facts stay in the events


def _pair(value: object) -> tuple[int, int]:
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(part, int) for part in value):
        return (value[0], value[1])
    return (0, 0)


def _strength(value: object, kind: str) -> Strength:
    if isinstance(value, str) and value.upper() in Strength.__members__:
        return Strength[value.upper()]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= Strength.EXIT:
        return Strength(value)
    return Strength.INFERENCE if kind == "lost" else Strength.ANSWER


def read_observed(root: Root, run_id: int) -> dict[str, list[Observation]]:
    """What heads saw of a run, by step name; the key "" holds what concerns the whole run.

    Lines are JSON objects {step, kind, strength, why, seen, seq}, with or without the envelope of `core.events`.
    """
    data = read_regular(root.own("observed") / f"{run_id}.jsonl", _OBSERVED_LIMIT)
    found: dict[str, list[Observation]] = {}
    for number, line in enumerate((data or b"").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict) and isinstance(kind := body.get("kind"), str):
            seq = body.get("seq")
            observation = Observation(
                kind=kind,
                strength=_strength(body.get("strength"), kind),
                why=str(body.get("why") or ""),
                seen=_pair(body.get("seen")),
                seq=seq if isinstance(seq, int) else number,
            )
            found.setdefault(str(body.get("step") or ""), []).append(observation)
    return found


@dataclass(frozen=True, slots=True)
class Steps:
    """All steps of a run in order, and what could not be read."""

    steps: tuple[StepRecord, ...] = ()
    problems: tuple[str, ...] = ()


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _seconds(log: events.Log, record: Mapping[str, Any] | None, active: bool) -> float | None:
    """How long the command ran: the exit record's word, else one boot's monotonic clock."""
    if record is not None and (elapsed := _number(record.get("elapsed_s"))) is not None:
        return elapsed
    begun = next((event for event in log.events if event.kind == "started"), None)
    if begun is None:
        return None
    last = max((event.mono for event in log.events if event.boot == begun.boot), default=begun.mono)
    if active and begun.boot and begun.boot == clock.boot_id():
        last = clock.monotonic()
    return max(0.0, last - begun.mono)


def _time_has_come(text: object, now: float) -> bool:
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return True
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() <= now


def _waits(spec: Mapping[str, Any], ended: Mapping[str, bool], now: float) -> bool:
    waits = spec.get("wait")
    for wait in waits if isinstance(waits, list) else ():
        if not isinstance(wait, dict):
            continue
        if wait.get("kind") == "after":
            names = wait.get("steps")
            if any(not ended.get(str(name), True) for name in (names if isinstance(names, list) else ())):
                return True
        elif wait.get("kind") == "not_before" and not _time_has_come(wait.get("time"), now):
            return True
    return False


def _too_large(folder: Path) -> bool:
    for _, path in events.event_files(folder):
        try:
            info = os.lstat(path)
        except OSError:
            continue
        if not stat.S_ISREG(info.st_mode) or info.st_size > _EVENTS_LIMIT:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Folded:
    """One step with everything read about it. `spec` is its `step.json`, empty when that cannot be understood."""

    number: int
    name: StepName
    spec: Mapping[str, Any]
    log: events.Log
    exit: Mapping[str, Any] | None
    state: StepState
    problems: tuple[str, ...] = ()

    @property
    def closed(self) -> bool:
        """Whether its supervisor said how it ended, or its command never started."""
        kinds = {event.kind for event in self.log.events}
        return "ended" in kinds or "started" not in kinds

    @property
    def over(self) -> bool:
        """Whether nothing is left to do; an exit record alone proves the end, but the step must still be closed."""
        return self.state.state.ended and self.closed

    @property
    def job(self) -> int:
        """The job it belongs to."""
        value = self.spec.get("job")
        return value if isinstance(value, int) else 1

    @property
    def after_agent(self) -> bool:
        """Whether it was planned to follow the agent, rather than asked for by a person afterwards."""
        waits = self.spec.get("wait")
        return any(
            isinstance(wait, dict) and "agent" in (wait.get("steps") or ())
            for wait in (waits if isinstance(waits, list) else ())
        )


def fold_steps(
    run: RunFiles, observed: Mapping[str, Sequence[Observation]], now: float | None = None
) -> Iterator[Folded]:
    """Every step of a run in order, folded. `now` is Unix time and only decides whether a `not_before` has come."""
    moment = time.time() if now is None else now
    cancelled = os.path.lexists(run.cancel)
    folders = run.step_folders()
    ended = {str(name): False for _, name, _ in folders}
    for number, name, folder in folders:
        problems: list[str] = []
        spec = read_record(folder / "step.json")
        if spec is None:
            problems.append(f"steps/{folder.name}/step.json cannot be understood")
            spec = {}
        if _too_large(folder):
            problems.append(f"steps/{folder.name}: its events are not readable files of bounded size")
            log = events.Log()
        else:
            log = events.read(folder)
        if log.skipped:
            problems.append(f"steps/{folder.name}: {log.skipped} damaged lines of events were skipped")
        record = read_record(folder / "exit.json")
        state = fold(
            StepFiles(
                events=log.events,
                exit=record,
                observed=[*observed.get(str(name), ()), *observed.get("", ())],
                cancelled=cancelled,
                harvests=name.kind == "agent",
                waits=_waits(spec, ended, moment),
            )
        )
        ended[str(name)] = state.state.ended
        yield Folded(number, name, spec, log, record, state, tuple(problems))


def read_steps(run: RunFiles, observed: Mapping[str, Sequence[Observation]], now: float | None = None) -> Steps:
    """The steps of a run as records for lists and tables."""
    problems: list[str] = []
    records: list[StepRecord] = []
    for step in fold_steps(run, observed, now):
        problems += step.problems
        state = step.state
        begun = next((event for event in step.log.events if event.kind == "started"), None)
        records.append(
            StepRecord(
                number=step.number,
                name=str(step.name),
                kind=step.name.kind,
                state=state.state.value,
                cause=state.cause,
                phase=state.phase,
                why=state.why,
                flags=state.flags,
                started=begun.t if begun else "",
                seconds=_seconds(step.log, step.exit, state.state is State.RUNNING),
                limit_s=_number(step.spec.get("limit_s")),
                facts={key: value for key, value in state.facts.items() if isinstance(value, _PLAIN)},
            )
        )
    return Steps(tuple(records), tuple(problems))
