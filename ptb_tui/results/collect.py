"""The score table of a results root under one protocol (design §5, E §5). Pure; `tables` writes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ptb_tui.core.scores import Board, MethodScore
from ptb_tui.results.groups import group_rows
from ptb_tui.results.methodrow import method_rows
from ptb_tui.results.policies import POLICIES
from ptb_tui.results.records import RunRecord
from ptb_tui.results.scoring import Rules, published, rules_of
from ptb_tui.results.tables import write_board

__all__ = ["Rules", "build_board", "published", "rules_of", "write_board"]


_NAMED = 5  # methods that a line names


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def with_spending(row: MethodScore, spent: Mapping[str, tuple[float | None, int | None]]) -> MethodScore:
    """The row with money and tokens of its runs, by path; unknown of one run is unknown of the row."""
    if not any(known != (None, None) for found in row.cells for known in (spent.get(found.run),) if known):
        return row
    cells = tuple(
        found.model_copy(update={"cost_usd": spent[found.run][0], "tokens": spent[found.run][1]})
        if found.run in spent
        else found
        for found in row.cells
    )
    runs = [found for found in cells if found.run]
    tokens = _sum([found.tokens for found in runs])
    update = {"cells": cells, "cost_usd": _sum([found.cost_usd for found in runs])}
    return row.model_copy(update={**update, "tokens": None if tokens is None else int(tokens)})


def _of_others(rows: Sequence[MethodScore]) -> list[str]:
    """That methods have runs of others alone, in one line however many they are."""
    origins = {row.method: {cell.origin for cell in row.cells if cell.run} for row in rows}
    found = [method for method, made in origins.items() if made and "ptb" not in made]
    if not found:
        return []
    made = ", ".join(sorted(set().union(*(origins[method] for method in found))))
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return [f"{', '.join(found[:_NAMED])}{more}: made by others ({made}), taken as asked"]


def build_board(
    records: Sequence[RunRecord],
    rules: Rules,
    *,
    policy: str = "finished",
    methods: Sequence[str] = (),
    groups: Mapping[str, Sequence[str]] | None = None,
    spending: Callable[[RunRecord], tuple[float | None, int | None]] | None = None,
) -> Board:
    """The board: tasks × models of the protocol for every method that has a run in that grid.

    `methods` restricts it to these; `groups` are rows of the leaderboard that hold several methods; `spending` tells
    money and tokens of a run. A method's score is Σ weight × mean over models of the used values (E §5.6).
    """
    if policy not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, not {policy!r}")
    rules = replace(rules, policy=policy)
    by_method: dict[str, list[RunRecord]] = defaultdict(list)
    for record in records:
        if record.method and (not methods or record.method in methods):
            by_method[record.method].append(record)
    problems: list[str] = list(rules.problems)
    rows = [row for method in sorted(by_method) for row in method_rows(rules, method, by_method[method], problems)]
    problems += _of_others(rows)
    if spending is not None:
        chosen = {found.run for row in rows for found in row.cells if found.run}
        spent = {record.relative: spending(record) for record in records if record.relative in chosen}
        rows = [with_spending(row, spent) for row in rows]
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
        groups=group_rows(rows, {name: weight for name, weight in rules.weights.items() if weight}, groups or {}),
        references=rules.references,
        problems=tuple(problems),
    )
