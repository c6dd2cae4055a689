"""One schedulable, recorded piece of work on a run: `step.json` (design §2.2, §5)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.core.layout import StepName
from ptb_tui.core.panel import Seat


class After(BaseModel):
    """Waits until these steps of the same run have ended, however they ended."""

    kind: Literal["after"] = "after"
    steps: tuple[str, ...]


class NotBefore(BaseModel):
    """Waits until a wall time, UTC as in `clock.utc_text`."""

    kind: Literal["not_before"] = "not_before"
    time: str


Wait = Annotated[After | NotBefore, Field(discriminator="kind")]


class StepSpec(BaseModel):
    """The immutable inputs of a step. Steps with the same `job` run one after the other in one slot."""

    model_config = ConfigDict(extra="allow", frozen=True)

    v: Literal[1] = 1
    kind: Literal["agent", "judge", "evaluate"]
    judge: str = ""
    n: int = 1
    job: int = 1
    limit_s: float = Field(gt=0)
    gpus: int = 0
    engine: str = ""
    vote: int = 1
    wait: tuple[Wait, ...] = ()
    token: str = ""
    operator: str = ""
    created: str = ""
    seeds: tuple[int, ...] = ()  # of an evaluation; empty: the protocol's
    limit: int | None = None  # items of an evaluation; None: the task's
    replace: bool = False  # whether an evaluation may give a run that has a score another one
    inputs: dict[str, str] = Field(default_factory=dict)
    seat: Seat | None = None  # who gives this vote; None in steps of older versions
    votes: int = 1  # how many votes were asked for at once
    evidence: bool = False  # what a judge says is kept and shown, and is no vote
    bundle: str = ""  # a program and content of its own; empty: those of the run

    @property
    def name(self) -> StepName:
        """The step's name."""
        return StepName(self.kind, self.judge, self.n)
