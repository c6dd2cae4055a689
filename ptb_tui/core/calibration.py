"""How well judges judge: questions about it, and the answers. What is measured are runs with a known truth."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.core.panel import MAX_VOTES, EngineName, Seat
from ptb_tui.core.spec import Problem


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CalibrationOrder(_Model):
    """What is to be measured. Empty means: the judges, engines, models and votes of the newest published protocol, on
    all cases. `again` also asks what has an answer already."""

    judges: tuple[str, ...] = ()
    engine: EngineName | None = None
    model: str = Field(default="", max_length=200)
    votes: int | None = Field(default=None, ge=1, le=MAX_VOTES)
    only: tuple[str, ...] = ()
    protocol: str = ""
    again: bool = False


class CalibrationQuery(_Model):
    """What was measured here; with `order`, also what that would do."""

    kind: Literal["calibration"] = "calibration"
    judges: tuple[str, ...] = ()
    order: CalibrationOrder | None = None


class FlagMeasure(_Model):
    """One flag. Counts are of cases, by the majority of the votes; a case without a verdict is in `without` alone.

    `sensitivity` and `specificity` are 95 % intervals of Wilson, None without a case. `same` of `pairs`: how many pairs
    of votes on one case agree.
    """

    flag: str
    found: int = 0
    guilty: int = 0
    false: int = 0
    clean: int = 0
    sensitivity: tuple[float, float] | None = None
    specificity: tuple[float, float] | None = None
    same: int = 0
    pairs: int = 0
    missed: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class Measured(_Model):
    """One engine and model with one judge's words. `cases` is name → digest; `outdated` those that are others today,
    and `words_now` whether the judge still has these words (None: not looked at). Unknown cost and tokens are None."""

    judge: str
    engine: str
    model: str = ""
    effort: str = ""
    endpoint: str = ""
    version: str = ""
    prompt_hash: str = ""
    cases: dict[str, str] = Field(default_factory=dict)
    votes: int = 1
    answers: int = 0
    flags: tuple[FlagMeasure, ...] = ()
    cost_usd: float | None = None
    tokens: int | None = None
    seconds: float = 0.0
    ended: str = ""
    folder: str = ""
    outdated: tuple[str, ...] = ()
    words_now: bool | None = None


class Agreement(_Model):
    """Two engines or models on the same cases: on how many flags they agree."""

    judge: str
    first: str
    second: str
    same: int
    of: int


class CalibrationLine(_Model):
    """One engine and model of one judge, as it would be measured. `ask` sessions of `votes` votes on each of `cases`;
    cost, tokens and seconds are estimates of these, by `basis`."""

    judge: str
    seat: Seat
    version: str = ""
    prompt_hash: str = ""
    votes: int = 1
    cases: tuple[str, ...] = ()
    ask: int = 0
    there: int = 0
    cost_usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    basis: str = ""


class CalibrationPlan(_Model):
    """What an order would do. `problems` that block are why it would be refused."""

    protocol: str = ""
    sandbox: str = ""
    cases: dict[str, str] = Field(default_factory=dict)  # name → what is true of it
    lines: tuple[CalibrationLine, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def ask(self) -> int:
        """Sessions in all."""
        return sum(line.ask for line in self.lines)


class CalibrationView(_Model):
    """Answer to `CalibrationQuery`; the newest measurement of each judge first."""

    kind: Literal["calibration"] = "calibration"
    folder: str = ""
    measured: tuple[Measured, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    plan: CalibrationPlan | None = None


class Calibration(_Model):
    """What a verdict is worth, as far as it was measured. `stale`: measured with other words, model or effort."""

    state: Literal["measured", "stale", "none"]
    words: str
    measured: tuple[Measured, ...] = ()
