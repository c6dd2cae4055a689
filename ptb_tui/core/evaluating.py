"""What evaluating a run's model again would do."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.core.spec import Problem

MAX_SEEDS, MAX_TIMES = 100, 20
Seed = Annotated[int, Field(ge=0, lt=1 << 31)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measurement(_Model):
    """How a model is measured. Empty means: seeds and items of the protocol, which alone gives a run its score.

    `n` evaluations, one after the other. `replace`: the new numbers become the score of a run that has one.
    """

    seeds: tuple[Seed, ...] = Field(default=(), max_length=MAX_SEEDS)
    limit: int | None = Field(default=None, ge=1)
    n: int = Field(default=1, ge=1, le=MAX_TIMES)
    replace: bool = False


class EvaluationQuery(_Model):
    """What evaluating would do; nothing is done."""

    kind: Literal["evaluation"] = "evaluation"
    run: str
    measurement: Measurement = Measurement()


class EvaluationView(_Model):
    """Answer to `EvaluationQuery`. `ladder`: (token limit, tries) of each stage; `goes_on`: the folder of an evaluation
    that was cut off, with the seeds it has measured; `score`: whether the numbers become the run's."""

    kind: Literal["evaluation"] = "evaluation"
    run: int
    method: str = ""
    run_name: str = ""
    task: str = ""
    seeds: tuple[int, ...] = ()
    greedy: bool = False
    limit: int = -1
    n: int = 1
    ladder: tuple[tuple[int | None, int], ...] = ()
    limit_s: float = 0.0
    output: str = ""
    goes_on: bool = False
    known: tuple[int, ...] = ()
    score: bool = False
    why: str = ""
    problems: tuple[Problem, ...] = ()
