"""The rules of triage, `triage.toml`: checked when read, so that a slip in the table is an error and not a silence."""

from __future__ import annotations

import re
import tomllib
from functools import cache, cached_property
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ptb_tui.core.causes import causes
from ptb_tui.core.triage import Cost

On = Literal["flag", "state", "cause", "worth", "verdict", "fact", "ending", "event", "path", "file", "problem"]


class Rule(BaseModel):
    """One row; `triage.toml` says what the fields mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    cost: Cost
    on: On
    match: tuple[str, ...] = Field(min_length=1)
    runs: Literal["all", "ours", "others"] = "all"
    steps: tuple[Literal["agent", "judge", "evaluate"], ...] = ()
    worth: tuple[str, ...] = ()
    file: str = ""
    part: Literal["head", "tail"] = "tail"
    bytes: int = Field(default=65_536, gt=0, le=1 << 20)
    tools: bool = False  # `event`: what commands printed that failed counts too
    cause: str = ""
    why: str = ""
    next: str = ""
    others: str = ""
    general: bool = False

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if (self.on == "file") != bool(self.file):
            raise ValueError(f"rule {self.id}: `file` belongs to on = file, and to nothing else")
        known = (self.cause, *(self.match if self.on in ("cause", "ending") else ()))
        if unknown := [name for name in known if name and name not in causes()]:
            raise ValueError(f"rule {self.id}: {unknown[0]} is no cause of causes.toml")
        if not (self.why or self.cause or self.on == "cause"):
            raise ValueError(f"rule {self.id}: nothing says why")
        return self

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """All expressions of `match` as one."""
        return re.compile("|".join(f"(?:{part})" for part in self.match))

    def concerns(self, *, foreign: bool, worth: str) -> bool:
        """Whether a run can be meant at all."""
        mine = self.runs == "all" or (self.runs == "others") == foreign
        return mine and (not self.worth or worth in self.worth)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rule: tuple[Rule, ...]

    @model_validator(mode="after")
    def _once(self) -> Self:
        names = [rule.id for rule in self.rule]
        if len(set(names)) != len(names):
            raise ValueError("a rule's id comes twice")
        return self


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order of the file."""
    text = Path(__file__).with_name("triage.toml").read_text("utf-8")
    return _Table.model_validate(tomllib.loads(text)).rule
