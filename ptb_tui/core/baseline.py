"""Questions about models measured as they are, without an agent (E §6.4), and the answers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.core.spec import Problem


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BaselineOrder(_Model):
    """What is to be measured. `model`: a hub id, `local/NAME`, or the path of a folder at the site. An empty protocol
    is the newest published one that has the task; `seeds` 0 is as many as the protocol says; `limit` -1 all items.
    `answers`: nothing is measured, the model's answers become the task's baseline answers.
    """

    task: str
    model: str
    protocol: str = ""
    seeds: int = Field(default=0, ge=0, le=5)
    limit: int = -1
    answers: bool = False


class BaselinesQuery(_Model):
    """What was measured here, of one task or model when named; with `order`, also what that would do."""

    kind: Literal["baselines"] = "baselines"
    task: str = ""
    model: str = ""
    order: BaselineOrder | None = None


class BaselineRow(_Model):
    """One measured model. `whole`: all items and the protocol's seeds, fit for its table `[baselines]`."""

    task: str
    model: str
    protocol: str = ""
    fingerprint: str = ""
    accuracy: float | None = None  # None for answers
    stderr: float | None = None
    spread: float | None = None  # standard deviation of the accuracies of the seeds, None with one
    seeds: tuple[int, ...] = ()
    limit: int = -1
    whole: bool = False
    answers: str = ""  # the file that was written
    count: int | None = None  # of answers
    t: str = ""
    folder: str = ""
    line: str = ""  # for the protocol's table of this model


class BaselinePlan(_Model):
    """What an order would do. `problems` that block are why it would be refused."""

    task: str
    model: str
    folder: str = ""
    protocol: str = ""
    sandbox: str = ""
    slots: str = ""
    seeds: tuple[int, ...] = ()
    limit: int = -1
    attempts: int = 0  # at most, for each seed
    answers: str = ""  # the file that would be written
    grader: str = ""
    problems: tuple[Problem, ...] = ()


class BaselinesView(_Model):
    """Answer to `BaselinesQuery`, newest first."""

    kind: Literal["baselines"] = "baselines"
    rows: tuple[BaselineRow, ...] = ()
    plan: BaselinePlan | None = None
