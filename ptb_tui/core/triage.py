"""What needs a person, and what it costs to leave it (H §7, case I07)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Cost = Literal["idle", "limit", "queue", "grade", "note"]
COSTS: tuple[Cost, ...] = ("idle", "limit", "queue", "grade", "note")
"""Dearest first: a GPU idles or a model may be lost; a limit or a login; the queue cannot go on; a result is missing;
nothing waits for it."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TriageQuery(_Model):
    """What is wrong. Looks at the newest run of every cell; `all` looks at older ones and at good ones too. Any of
    `agents`, `tasks` and `models` asks for cells without a run as well, among those named."""

    kind: Literal["triage"] = "triage"
    all: bool = False
    agents: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


class Finding(_Model):
    """One thing that is wrong. `evidence` says where it is written, `hint` that mere text spoke and not a fact."""

    cost: Cost
    rule: str
    cause: str = ""
    why: str
    run: int | None = None  # None: a cell without a run, or the site itself
    method: str = ""
    benchmark: str = ""
    model: str = ""
    path: str = ""
    evidence: str = ""
    resets: str = ""  # UTC text: when a limit ends
    next: str = ""
    hint: bool = False


class TriageView(_Model):
    """Answer to `TriageQuery`, dearest first. `looked` is the number of runs that were looked at."""

    kind: Literal["triage"] = "triage"
    findings: tuple[Finding, ...] = ()
    looked: int = 0
    problems: tuple[str, ...] = Field(default=())
