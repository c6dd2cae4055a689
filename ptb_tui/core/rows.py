"""The list of runs: the question asked most, kept apart so that a plain list loads nothing it does not need."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunsQuery(_Model):
    """The runs of a site, newest first."""

    kind: Literal["runs"] = "runs"
    sweep: str = ""
    match: str = ""  # part of method, run, state or worth
    active: bool = False
    failed: bool = False
    ids: tuple[int, ...] = ()


class RunRow(_Model):
    """One run in a list. Times are UTC text; seconds are durations of one boot's monotonic clock."""

    id: int
    method: str
    benchmark: str
    model: str
    origin: Literal["ptb", "upstream", "harbor"] = "ptb"
    path: str = ""
    state: str = ""
    step: str = ""
    phase: str = ""
    cause: str = ""
    flags: tuple[str, ...] = ()
    worth: str = ""
    reason: str = ""
    letters: str = ""
    score: float | None = None
    created: str = ""
    seconds: float | None = None
    remaining: float | None = None
    sweep: str = ""
    sweep_name: str = ""
    steps_ended: int = 0
    steps_total: int = 0


class RunList(_Model):
    """Answer to `RunsQuery`."""

    kind: Literal["runs"] = "runs"
    runs: tuple[RunRow, ...] = ()
    problems: tuple[str, ...] = ()
