"""One run as read from a results root: plain records that cost little, so that a thousand can be listed at once.

Standard library alone; the pydantic models of `core.scores` and `core.query` are made only when asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ptb_tui.core.states import State

if TYPE_CHECKING:
    from ptb_tui.core.scores import RunFacts

Origin = Literal["ptb", "upstream", "harbor"]
Place = Literal["run", "queue", "never_started"]
Policy = Literal["measured", "baseline", "none"]


class Assessment(NamedTuple):
    """What one run is worth. `worth` is a word of `core.scores.Worth`; `policy` says which value is used for it."""

    worth: str
    policy: Policy
    letters: str = ""
    reason: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step as folded from its files. `seconds` is a duration of one boot's monotonic clock."""

    number: int
    name: str
    kind: str
    state: str
    cause: str = ""
    phase: str = ""
    why: str = ""
    flags: tuple[str, ...] = ()
    started: str = ""
    seconds: float | None = None
    limit_s: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether nothing more happens by itself; true for LOST too."""
        return State(self.state).ended

    @property
    def settled(self) -> bool:
        """Whether the state stands for good; LOST may be revoked."""
        return self.ended and self.state != State.LOST

    def to_json(self) -> list[Any]:
        """Plain form for the index."""
        return [getattr(self, name) for name in self.__slots__]

    @classmethod
    def from_json(cls, values: list[Any]) -> StepRecord:
        """Read the plain form."""
        number, name, kind, state, cause, phase, why, flags, started, seconds, limit_s, facts = values
        return cls(number, name, kind, state, cause, phase, why, tuple(flags), started, seconds, limit_s, facts)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of a root.

    `relative` is the run directory below `root`, or the folder below `_ptb/` of a run whose agent never started.
    `model` is the hub id (for runs of others made from the directory name). `started` is the start of the agent, UTC
    text, empty when unknown. `values` are the fields of `core.scores.RunFacts` without the verdicts. `problems` are
    files that could not be understood, in words. `verdicts_text` holds `core.scores.VerdictSummary`s as JSON, without
    fields that have their default.
    """

    id: int
    method: str
    run_name: str
    benchmark: str
    model: str
    origin: Origin
    place: Place
    root: Path
    relative: str
    agent: str = ""
    protocol: str = ""
    fingerprint: str = ""
    created: str = ""
    started: str = ""
    sweep: str = ""
    sweep_name: str = ""
    spec_text: str = ""  # JSON, read when asked for: a list needs none of it
    verdicts_text: str = "[]"
    steps: tuple[StepRecord, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    assessment: Assessment = field(default_factory=lambda: Assessment("missing", "none"))
    problems: tuple[str, ...] = ()

    @property
    def facts(self) -> RunFacts:
        """What decides the worth of this run."""
        from ptb_tui.core.scores import RunFacts  # costs 0.1 s at first use; lists do without

        return RunFacts.model_validate({**self.values, "verdicts": json.loads(self.verdicts_text)})

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.root / self.relative

    @property
    def ptb(self) -> Path | None:
        """The folder of our files; None for runs that others made."""
        if self.foreign:
            return None
        return self.path / ".ptb" if self.place == "run" else self.path

    @property
    def spec(self) -> dict[str, Any] | None:
        """Content of `spec.json`; None for runs of others, and when it cannot be understood."""
        return json.loads(self.spec_text) if self.spec_text else None

    @property
    def agent_step(self) -> StepRecord | None:
        """The agent's step; None for runs of others."""
        return next((step for step in self.steps if step.kind == "agent"), None)

    @property
    def active(self) -> bool:
        """Whether a step is still to end."""
        return any(not step.ended for step in self.steps)

    @property
    def foreign(self) -> bool:
        """Whether others made this run."""
        return self.origin != "ptb"


_WORTH = ("no_model", "invalid_model")  # facts of worth, not failures: such a run has done all it could


def shown_step(steps: tuple[StepRecord, ...]) -> StepRecord | None:
    """The step that says where a run stands: the first that has not ended, else the last that matters.

    An agent that did not end well matters most, whatever still waits for it; then the newest evaluation, then the
    newest judge: judges that fail never hide the result.
    """
    agent = next((step for step in steps if step.kind == "agent"), None)
    if agent is not None and agent.ended and agent.state != State.DONE:
        return agent
    for step in steps:
        if not step.ended:
            return step
    for kind in ("evaluate", "judge", "agent"):
        found = [step for step in steps if step.kind == kind and step.cause not in _WORTH]
        if found:
            return found[-1]
    return None
