"""What a protocol says about scores, with the references that its weights follow from (E §5.6). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptb_tui.core.scores import GroupScore
from ptb_tui.results.leaderboard import check_weights
from ptb_tui.results.metrics import parse_time
from ptb_tui.results.verdicts import JudgePolicy

if TYPE_CHECKING:
    from ptb_tui.content.protocols import Protocol
    from ptb_tui.content.references import Published, References


@dataclass(frozen=True, slots=True)
class Rules:
    """What a protocol says about scores. `baselines` is model → benchmark → score, as fractions."""

    protocol: str
    tasks: tuple[str, ...]
    models: tuple[str, ...]
    weights: Mapping[str, float] = field(default_factory=dict)
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    judges: tuple[JudgePolicy, ...] | None = None
    policy: str = "finished"
    differs: Callable[[str, str], str] = lambda before, after: ""  # what differs between two fingerprints, in words
    references: tuple[GroupScore, ...] = ()
    problems: tuple[str, ...] = ()

    def baseline(self, model: str, benchmark: str) -> float | None:
        """The base model's score; models may be named with or without organisation."""
        row = self.baselines.get(model) or self.baselines.get(model.rpartition("/")[2]) or {}
        return row.get(benchmark)


def rules_of(protocol: Protocol, references: References | None = None) -> Rules:
    """The rules of a protocol file. With its references the weights are derived anew: ContentError when a task has no
    gain, and a problem in words where the file says another weight."""
    problems: list[str] = []
    if references is not None and references.instruct and protocol.weights:
        instruct = {name: row.scores for name, row in references.instruct.items()}
        base = {row.of: protocol.baselines.get(row.of, {}) for row in references.instruct.values()}
        problems = [f"protocol {protocol.name}: {words}" for words in check_weights(protocol.weights, instruct, base)]
    return Rules(
        protocol=protocol.name,
        tasks=tuple(protocol.tasks),
        models=tuple(protocol.models),
        weights=dict(protocol.weights),
        baselines={model: dict(row) for model, row in protocol.baselines.items()},
        judges=tuple(JudgePolicy(judge.judge, judge.effect, judge.required) for judge in protocol.judges),
        references=tuple(published(row) for row in references.published) if references is not None else (),
        problems=tuple(problems),
    )


def published(row: Published) -> GroupScore:
    """A published row as the leaderboard shows it."""
    return GroupScore(
        name=row.name,
        score=row.score,
        std=row.std,
        n=row.n or 0,
        seconds=parse_time(row.time),
        seconds_std=parse_time(row.time_std),
        published=True,
    )
