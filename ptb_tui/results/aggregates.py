"""The original's tables over groups of methods: mean, sample deviation, single scores, times (E §5.7). Pure.

The original divides by zero for a group of one method; here its deviation is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptb_tui.core.scores import Board, GroupScore
from ptb_tui.results.csvtext import clock, csv_text, number
from ptb_tui.results.leaderboard import weighted_score
from ptb_tui.results.statistics import spread

Grid = Mapping[str, Mapping[str, float | None]]  # short model → task → value


def grid_text(grid: Grid) -> str:
    """A table model × task."""
    benchmarks = sorted({name for row in grid.values() for name in row})
    rows = [[model, *(number(grid[model].get(name)) for name in benchmarks)] for model in sorted(grid)]
    return csv_text([["model", *benchmarks], *rows])


def _whole(board: Board, grid: Grid) -> bool:
    """Whether the original takes the table for a score: all models, all weighted tasks (E §5.6)."""
    models = {model.rpartition("/")[2] for model in board.models}
    weighted = {name for name, weight in board.weights.items() if weight}
    return bool(weighted) and set(grid) == models and all(weighted <= set(row) for row in grid.values())


def _score(board: Board, grid: Grid) -> float | None:
    if not _whole(board, grid):
        return None
    filled = {model: {name: value for name, value in row.items() if value is not None} for model, row in grid.items()}
    weights = {name: weight for name, weight in board.weights.items() if weight}
    if any(name not in row for row in filled.values() for name in weights):
        return None
    return weighted_score(weights, filled)


def _over(grids: Sequence[Grid]) -> tuple[Grid, Grid] | None:
    """(means, deviations) of each cell; None when the tables do not have the same cells."""
    keys = [{(model, name) for model, row in grid.items() for name in row} for grid in grids]
    if not grids or any(other != keys[0] for other in keys):
        return None
    means: dict[str, dict[str, float | None]] = {}
    deviations: dict[str, dict[str, float | None]] = {}
    for model, name in sorted(keys[0]):
        column = [value for grid in grids if (value := grid[model][name]) is not None]
        average, deviation, count = spread(column)
        whole = count == len(grids)
        means.setdefault(model, {})[name] = average if whole else None
        deviations.setdefault(model, {})[name] = deviation if whole else None
    return means, deviations


def file_name(name: str) -> str:
    """A group's name as part of a file name."""
    return name.replace("/", "_")


def _groups(board: Board) -> list[GroupScore]:
    """The groups that somebody named; a method that is in none is no agent of the original's tables."""
    return sorted((row for row in board.groups if row.methods != (row.name,)), key=lambda row: row.name)


def tables(board: Board, numbers: Mapping[str, Grid]) -> dict[str, str]:
    """The tables by file name. `numbers` are the values of each method's own table."""
    found: dict[str, str] = {}
    scored = {row.method: row.score is not None for row in board.methods}
    singles = {method: _score(board, grid) for method, grid in numbers.items() if scored.get(method)}
    aggregated, times = [], []
    for group in _groups(board):
        grids = [numbers[method] for method in group.methods if method in numbers]
        over = _over(grids) if len(grids) == len(group.methods) else None
        if over is not None:
            for kind, grid in zip(("avg", "std"), over, strict=True):
                text = grid_text(grid)
                found[f"aggregated_{kind}_{file_name(group.name)}.csv"] = text
                found[f"final_{kind}_{file_name(group.name)}.csv"] = text
                if group.score is not None:
                    singles[f"{kind}_{group.name}"] = _score(board, grid)
        scores = [score for method in group.methods if (score := singles.get(method)) is not None]
        if scores and len(scores) == len(group.methods) and group.score is not None:
            average, deviation, count = spread(scores)
            aggregated.append([group.name, number(average), number(deviation), str(count)])
        times += _times(board, group)
    rows = [[method, number(score)] for method, score in sorted(singles.items()) if score is not None]
    found["single_metrics.csv"] = csv_text([["method", "metric"], *rows])
    if _groups(board):
        found["single_metrics_aggregated.csv"] = csv_text([["agent", "avg", "std", "n"], *aggregated])
        found["time_aggregated.csv"] = csv_text([["agent", "avg_time", "std_time", "n"], *times])
    return found


def _times(board: Board, group: GroupScore) -> list[list[str]]:
    """Mean and deviation of the methods' mean times, cut to seconds; nothing when one has no time."""
    seconds = {row.method: int(row.seconds) for row in board.methods if row.seconds is not None and not row.withheld}
    values = [seconds[method] for method in group.methods if method in seconds]
    average, deviation, count = spread([float(value) for value in values])
    if average is None or count != len(group.methods):
        return []
    return [[group.name, clock(int(average)), "" if deviation is None else clock(int(deviation)), str(count)]]
