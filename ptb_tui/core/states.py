"""States of a step: a pure fold over all files, ordered by strength of evidence (design §5). Standard library alone.

    exit record of the shim > supervisor's events > scheduler's job log > scheduler's answer > inference of a head

Weaker never overrides stronger. The result does not depend on the order in which evidence arrived or was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from ptb_tui.core.events import Event


class State(StrEnum):
    """Where a step stands."""

    WAITING = "waiting"
    QUEUED = "queued"
    HELD = "held"
    SUBMIT_UNKNOWN = "submit_unknown"
    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen by itself. LOST is an inference: it frees waiters and may be revoked."""
        return self in (State.DONE, State.FAILED, State.CANCELLED, State.LOST)

    @property
    def active(self) -> bool:
        """Whether the step holds a slot."""
        return self in (State.STARTING, State.RUNNING)


class Strength(IntEnum):
    """How strong a piece of evidence is."""

    NONE = 0
    INFERENCE = 1
    ANSWER = 2
    JOB_LOG = 3
    SUPERVISOR = 4
    EXIT = 5


@dataclass(frozen=True, slots=True)
class Observation:
    """What a head saw (`_ptb/observed/<run>.jsonl`).

    `seen` is how far the supervisor's log reached at that time: (writer, seq) of its last event. A LOST whose log has
    grown since is revoked; clocks are never compared.
    """

    kind: str  # lost | held | released | removed | queued | running | submit_unknown
    strength: Strength
    why: str = ""
    seen: tuple[int, int] = (0, 0)
    seq: int = 0


@dataclass(frozen=True, slots=True)
class StepFiles:
    """Everything on disk about one step, as read."""

    events: Sequence[Event] = ()
    exit: Mapping[str, Any] | None = None
    observed: Sequence[Observation] = ()
    cancelled: bool = False
    harvests: bool = False  # agent steps end with the harvest, not with the agent's exit
    waits: bool = False  # a step it waits for has not ended, or its time has not come


@dataclass(frozen=True, slots=True)
class StepState:
    """The fold's result. `flags` are short words such as "cancelling" or "lost 1x, then seen again"."""

    state: State
    strength: Strength = Strength.NONE
    cause: str = ""
    phase: str = ""
    started: bool = False
    why: str = ""
    flags: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


_OUTCOMES = {"done": State.DONE, "failed": State.FAILED, "cancelled": State.CANCELLED}


def outcome_of_exit(record: Mapping[str, Any]) -> tuple[State, str]:
    """State and cause that an exit record proves for a step without a harvest."""
    stopped = str(record.get("stopped") or "")
    if stopped == "cancel":
        return State.CANCELLED, "operator"
    if stopped == "fence":
        return State.FAILED, "fenced"
    if stopped == "deadline":
        return State.FAILED, "step_limit"
    if stopped == "signal":
        return State.FAILED, "preempted"
    if stopped == "disk_full":
        return State.FAILED, "disk_full"
    if record.get("oom") is True:
        return State.FAILED, "oom"
    return (State.DONE, "") if record.get("rc") == 0 else (State.FAILED, "unknown")


def _last(events: Iterable[Event], *kinds: str) -> Event | None:
    found = None
    for event in events:
        if event.kind in kinds:
            found = event
    return found


def fold(files: StepFiles) -> StepState:
    """The state of a step from all its files."""
    events = sorted(files.events, key=lambda event: event.order)
    begun = _last(events, "started") is not None
    phase_event = _last(events, "phase")
    phase = str(phase_event.data.get("name", "")) if phase_event else ""
    facts: dict[str, Any] = {}
    for event in events:
        if event.kind in ("harvested", "result"):
            facts.update(event.data)
    last_seen = events[-1].order if events else (0, 0)
    flags: list[str] = []
    if any(event.kind == "model_at_risk" for event in events):
        flags.append("model at risk")

    noted = facts.get("flags")  # of a step's result: short words of ours
    flags += [str(word)[:80] for word in noted[:20]] if isinstance(noted, list) else []

    def result(state: State, strength: Strength, cause: str = "", why: str = "") -> StepState:
        revoked = sum(1 for seen in files.observed if seen.kind == "lost") if state is not State.LOST else 0
        if revoked:
            flags.append(f"lost {revoked}x, then seen again")
        if files.cancelled and state.active:
            flags.append("cancelling")
        return StepState(state, strength, cause, phase, begun, why, tuple(flags), facts)

    ended = _last(events, "ended")
    ended_state = _OUTCOMES.get(str(ended.data.get("outcome"))) if ended else None
    if files.exit is not None and not files.harvests:
        state, cause = outcome_of_exit(files.exit)
        if ended is not None and ended_state is state and ended.data.get("cause"):
            cause = str(ended.data["cause"])  # the supervisor knows the reason better, never the outcome
        return result(state, Strength.EXIT, cause, str(ended.data.get("why", "")) if ended else "")
    if ended is not None and ended_state is not None:
        strength = Strength.EXIT if files.exit is not None else Strength.SUPERVISOR
        return result(ended_state, strength, str(ended.data.get("cause", "")), str(ended.data.get("why", "")))

    lost = [seen for seen in files.observed if seen.kind == "lost" and seen.seen >= last_seen]
    if files.exit is not None:  # the agent ended, its harvest has not
        if lost:
            return result(State.LOST, Strength.INFERENCE, "host_lost", lost[-1].why)
        phase = phase or "harvest"
        return result(State.RUNNING, Strength.EXIT)
    if begun:
        if lost:
            return result(State.LOST, Strength.INFERENCE, "host_lost", lost[-1].why)
        return result(State.RUNNING, Strength.SUPERVISOR)

    # The command never started: a cancel record or the scheduler's job log may end it.
    claimed, requeued = _last(events, "claimed"), _last(events, "requeued")
    if claimed is not None and (requeued is None or requeued.order < claimed.order):
        if lost:
            return result(State.LOST, Strength.INFERENCE, "host_lost", lost[-1].why)
        return result(State.STARTING, Strength.SUPERVISOR)
    if files.cancelled:
        return result(State.CANCELLED, Strength.JOB_LOG, "operator")
    scheduler = sorted(
        (seen for seen in files.observed if seen.kind != "lost"),
        key=lambda seen: (seen.strength, seen.seq, seen.kind, seen.why),
    )
    if scheduler:
        strongest = scheduler[-1]
        kinds = {
            "held": State.HELD,
            "submit_unknown": State.SUBMIT_UNKNOWN,
            "running": State.STARTING,
            "removed": State.CANCELLED,
        }
        if strongest.kind != "removed" or strongest.strength >= Strength.JOB_LOG:
            state = kinds.get(strongest.kind, State.QUEUED)
            return result(state, strongest.strength, "operator" if state is State.CANCELLED else "", strongest.why)
    if files.waits:
        return result(State.WAITING, Strength.NONE)
    return result(State.QUEUED, Strength.NONE)
