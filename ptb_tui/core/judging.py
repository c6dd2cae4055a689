"""What asking the judges of a run again would do."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.core.panel import MAX_VOTES, EngineName, Seat
from ptb_tui.core.spec import Problem


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Request(_Model):
    """How judges are asked. Empty means: the run's judges, engines, models and votes. `skip_existing` leaves out votes
    that are there for these words and this model; `fresh` takes the judges of today instead of the run's frozen ones.
    `protocol`: whose judges, of a run that others made; else those of the newest published one.
    """

    judges: tuple[str, ...] = ()
    engine: EngineName | None = None
    model: str = Field(default="", max_length=200)
    votes: int | None = Field(default=None, ge=1, le=MAX_VOTES)
    skip_existing: bool = False
    fresh: bool = False
    protocol: str = Field(default="", max_length=100)


class JudgingQuery(_Model):
    """What asking would do; nothing is done."""

    kind: Literal["judging"] = "judging"
    run: str
    request: Request = Request()


class JudgingLine(_Model):
    """One judge of the run. `votes` are the numbers of those that would be asked, `seats` who gives each vote.
    `evidence`: what they say is kept beside the verdicts and is none."""

    judge: str
    action: Literal["ask", "skip", "blocked"]
    votes: tuple[int, ...] = ()
    seats: tuple[Seat, ...] = ()
    wanted: int = 1
    prompt_hash: tuple[str, ...] = ()
    limit_s: float = 0.0
    evidence: bool = False
    why: str = ""


class JudgingView(_Model):
    """Answer to `JudgingQuery`. `bundle` names the content that would judge; empty: the run's own. `place` is where
    verdicts go when that is not the run's directory."""

    kind: Literal["judging"] = "judging"
    run: int
    method: str = ""
    run_name: str = ""
    bundle: str = ""
    place: str = ""
    lines: tuple[JudgingLine, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def asked(self) -> tuple[JudgingLine, ...]:
        """Judges that would be asked."""
        return tuple(line for line in self.lines if line.action == "ask")
