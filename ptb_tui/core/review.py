"""Verdicts that a person should look at, and what a person may decide about one (E §3.8, §5.9)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from ptb_tui.core.scores import VerdictSummary

Decision = Literal["clear", "flag", "confirm"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FlaggedQuery(_Model):
    """Verdicts that are flagged, contradictory, unreadable, split or worth reading, and that nobody decided about.

    `judges` are folder names or output ids, all when empty. `all`: also what a person has decided, what is missing or
    late, and void runs.
    """

    kind: Literal["flagged"] = "flagged"
    judges: tuple[str, ...] = ()
    all: bool = False


class FlaggedVerdict(_Model):
    """One verdict of the queue. `why` says why it is there; `place` is the file to read; `next` are commands."""

    run: int
    method: str = ""
    benchmark: str = ""
    model: str = ""
    path: str = ""
    worth: str = ""
    why: str
    place: str = ""
    verdict: VerdictSummary
    next: tuple[str, ...] = ()


class FlaggedView(_Model):
    """Answer to `FlaggedQuery`: what a score waits for first, then newest runs first. `looked`: runs; `decided`: how
    many verdicts a person has decided; `left_off`: how many more there are than an answer holds."""

    kind: Literal["flagged"] = "flagged"
    verdicts: tuple[FlaggedVerdict, ...] = ()
    looked: int = 0
    decided: int = 0
    left_off: int = 0
    problems: tuple[str, ...] = ()
