"""One run while it is looked at: what the store knows, and what is read of its trace when somebody asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ptb_tui.results.evidence import TraceTail
from ptb_tui.results.records import RunRecord, StepRecord
from ptb_tui.results.rules import Rule
from ptb_tui.traces import endings

GOOD = ("scored", "flagged", "void", "running")  # worth of runs whose trace nobody needs to read


@dataclass(frozen=True)
class Case:
    """One run with what is read of it when a rule asks."""

    record: RunRecord
    family: str
    now: float

    @cached_property
    def tail(self) -> TraceTail:
        """The end of its trace."""
        return TraceTail(self.record.path, self.family)

    @cached_property
    def ending(self) -> dict[str, Any]:
        """How the last session of its trace ended."""
        return endings.of(self.tail.events)

    @cached_property
    def verdicts(self) -> list[dict[str, Any]]:
        """Verdicts of judges that count, as plain values."""
        return [verdict for verdict in json.loads(self.record.verdicts_text) if verdict.get("required")]

    @property
    def worth(self) -> str:
        """What it is worth now."""
        return str(self.record.assessment.worth)

    def steps(self, rule: Rule) -> Iterator[StepRecord]:
        """The steps that a rule means."""
        return (step for step in self.record.steps if not rule.steps or step.kind in rule.steps)

    def place(self, step: StepRecord) -> str:
        """Where the files of a step lie."""
        folder = "steps" if self.record.place != "run" else ".ptb/steps"
        return f"{folder}/{step.number:03d}-{step.name.replace(':', '-').replace('#', '-')}"
