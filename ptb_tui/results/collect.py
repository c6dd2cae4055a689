"""The score table of a results root under one protocol (design §5, E §5). Pure; `tables` writes it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptb_tui.core.scores import Board, CellScore, MethodScore
from ptb_tui.results.cells import POLICIES, cell, same_model
from ptb_tui.results.leaderboard import weighted_score
from ptb_tui.results.records import RunRecord
from ptb_tui.results.tables import write_board
from ptb_tui.results.verdicts import JudgePolicy

if TYPE_CHECKING:
    from ptb_tui.content.protocols import Protocol

__all__ = ["Rules", "build_board", "rules_of", "write_board"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a protocol says about scores. `baselines` is model → benchmark → score, as fractions."""

    protocol: str
    tasks: tuple[str, ...]
    models: tuple[str, ...]
    weights: Mapping[str, float] = field(default_factory=dict)
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    judges: tuple[JudgePolicy, ...] | None = None

    def baseline(self, model: str, benchmark: str) -> float | None:
        """The base model's score; models may be named with or without organisation."""
        row = self.baselines.get(model) or self.baselines.get(model.rpartition("/")[2]) or {}
        return row.get(benchmark)


def rules_of(protocol: Protocol) -> Rules:
    """The rules of a protocol file."""
    return Rules(
        protocol=protocol.name,
        tasks=tuple(protocol.tasks),
        models=tuple(protocol.models),
        weights=dict(protocol.weights),
        baselines={model: dict(row) for model, row in protocol.baselines.items()},
        judges=tuple(JudgePolicy(judge.judge, judge.effect, judge.required) for judge in protocol.judges),
    )


def _score(rules: Rules, cells: Sequence[CellScore]) -> tuple[float | None, str]:
    """The weighted score, or why there is none. Every weighted cell must have a value (E §5.6)."""
    weighted = {benchmark for benchmark, weight in rules.weights.items() if weight}
    if not weighted:
        return None, f"protocol {rules.protocol} has no weights"
    absent = sorted(weighted - set(rules.tasks))
    if absent:
        return None, f"weighted but no task of the protocol: {', '.join(absent)}"
    empty = [found for found in cells if found.used is None and found.benchmark in weighted]
    if empty:
        kinds = Counter(found.worth.value for found in empty)
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        where = "; ".join(f"{found.benchmark} on {found.model}" for found in empty[:3])
        more = f" and {len(empty) - 3} more" if len(empty) > 3 else ""
        plural = "cell has" if len(empty) == 1 else "cells have"
        return None, f"{len(empty)} {plural} no value ({listed}): {where}{more}"
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for found in cells:
        if found.used is not None:
            values[found.model][found.benchmark] = found.used
    return weighted_score({name: rules.weights[name] for name in weighted}, values), ""


def _of_protocol(rules: Rules, records: Sequence[RunRecord], method: str, problems: list[str]) -> list[RunRecord]:
    """The runs that a board may use: of this protocol, or of others and then marked; the rest is named."""
    kept, elsewhere = [], Counter[str]()
    for record in records:
        if record.foreign or record.protocol == rules.protocol:
            kept.append(record)
        elif record.place == "run":
            elsewhere[record.protocol or "unknown"] += 1
    for protocol, count in sorted(elsewhere.items()):
        plural = "run" if count == 1 else "runs"
        problems.append(f"{method}: {count} {plural} under protocol {protocol} left out")
    return kept


def _marks(chosen: Sequence[RunRecord], method: str) -> list[str]:
    marks = []
    foreign = [record for record in chosen if record.foreign]
    if foreign:
        origins = ", ".join(sorted({record.origin for record in foreign}))
        marks.append(f"{method}: {len(foreign)} of {len(chosen)} cells are runs of others ({origins}), taken as asked")
    prints = Counter(record.fingerprint for record in chosen if not record.foreign)
    if len(prints) > 1:
        listed = ", ".join(f"{name or 'none'} ({count})" for name, count in sorted(prints.items()))
        marks.append(f"{method}: cells of {len(prints)} fingerprints of the protocol are mixed: {listed}")
    return marks


def build_board(
    records: Sequence[RunRecord], rules: Rules, *, policy: str = "finished", methods: Sequence[str] = ()
) -> Board:
    """The board: tasks × models of the protocol for every method that has a run in that grid.

    `methods` restricts it to these. A method's score is Σ weight × mean over models of the used values (E §5.6).
    """
    if policy not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, not {policy!r}")
    by_method: dict[str, list[RunRecord]] = defaultdict(list)
    for record in records:
        if record.method and (not methods or record.method in methods):
            by_method[record.method].append(record)
    problems: list[str] = []
    rows: list[MethodScore] = []
    for method in sorted(by_method):
        kept = _of_protocol(rules, by_method[method], method, problems)
        grid: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
        outside = 0
        for record in kept:
            model = next((model for model in rules.models if same_model(record.model, model)), None)
            if model is None or record.benchmark not in rules.tasks:
                outside += 1
            else:
                grid[record.benchmark, model].append(record)
        if not grid:
            continue
        if outside:
            problems.append(f"{method}: {outside} runs outside the tasks and models of the protocol left out")
        cells = tuple(
            cell(
                method,
                benchmark,
                model,
                grid.get((benchmark, model), ()),
                baseline=rules.baseline(model, benchmark),
                judges=rules.judges,
                policy=policy,
            )
            for benchmark in rules.tasks
            for model in rules.models
        )
        used = {found.run for found in cells if found.run}
        problems += _marks([record for record in kept if record.relative in used], method)
        for record in kept:
            problems += [f"{record.relative}: {words}" for words in record.problems if record.relative in used]
        score, reason = _score(rules, cells)
        rows.append(MethodScore(method=method, protocol=rules.protocol, score=score, reason=reason, cells=cells))
    rows.sort(key=lambda row: (row.score is None, -(row.score or 0.0), row.method))
    baselines = {
        model: {
            benchmark: value for benchmark in rules.tasks if (value := rules.baseline(model, benchmark)) is not None
        }
        for model in rules.models
    }
    return Board(
        protocol=rules.protocol,
        policy=policy,
        benchmarks=rules.tasks,
        models=rules.models,
        baselines=baselines,
        weights=dict(rules.weights),
        methods=tuple(rows),
        problems=tuple(problems),
    )
