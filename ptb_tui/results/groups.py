"""The rows of the leaderboard: groups of methods that repeat each other, with spread and interval (E §5.7). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ptb_tui.core.scores import CellScore, GroupScore, MethodScore, Worth
from ptb_tui.results.statistics import Part, interval, mean, reweighted, spread

_SHOWN = 50  # missing cells that are named; `missing` says how many more


def parts(cells: Sequence[CellScore], weights: Mapping[str, float]) -> tuple[Part, ...]:
    """What a method's score is made of: each weighted cell's share. Base scores carry no error of their own."""
    models = len({cell.model for cell in cells}) or 1
    found = []
    for cell in cells:
        weight = weights.get(cell.benchmark, 0.0) / models
        if weight and cell.used is not None:
            measured = cell.worth is Worth.SCORED
            stderr = cell.stderr if measured else None
            found.append(Part(weight, cell.used, cell.seeds if measured else (), stderr))
    return tuple(found)


def task_means(cells: Iterable[CellScore]) -> dict[str, float | None]:
    """The mean over models of each task; None while one of its cells has no value."""
    columns: dict[str, list[float | None]] = {}
    for cell in cells:
        columns.setdefault(cell.benchmark, []).append(cell.used)
    return {name: _mean(column) for name, column in columns.items()}


def rescored(means: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    """The score of a method under other weights; None while a weighted task has no mean."""
    shares = [weight * value for name, weight in weights.items() if (value := means.get(name)) is not None]
    return sum(shares) if len(shares) == len(weights) else None


def _letters(cells: Iterable[CellScore]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for cell in cells:
        found.update(cell.letters)
        found["quarantined"] += cell.worth is Worth.QUARANTINED
    return {name: found[name] for name in ("M", "C", "A", "quarantined") if found[name]}


def agreement(cells: Iterable[CellScore]) -> tuple[int, int]:
    """(verdicts on which all votes and reruns of a judge agree, verdicts that have several)."""
    several = [said for cell in cells for said in cell.opinions.values() if len(said) > 1]
    return sum(len(set(said)) == 1 for said in several), len(several)


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean, unknown when one of the values is."""
    found = list(values)
    known = [value for value in found if value is not None]
    return mean(known) if known and len(known) == len(found) else None


def _marks(rows: Sequence[MethodScore]) -> tuple[str, ...]:
    marks = list(dict.fromkeys(mark for row in rows for mark in row.marks))
    for words, values in (
        ("versions of the CLI", {cell.cli_version for row in rows for cell in row.cells if cell.cli_version}),
        ("fingerprints of the protocol", {cell.fingerprint for row in rows for cell in row.cells if cell.fingerprint}),
    ):
        if len(rows) > 1 and len(values) > 1 and not any(words in mark for mark in marks):
            marks.append(f"{len(values)} {words} in the group: {', '.join(sorted(values))}")
    return tuple(marks)


def _row(name: str, rows: Sequence[MethodScore], absent: Sequence[str], weights: Mapping[str, float]) -> GroupScore:
    cells = [cell for row in rows for cell in row.cells]
    scores = [row.score for row in rows if row.score is not None]
    whole = len(scores) == len(rows) and not absent
    reasons = [f"{method}: no run under this protocol" for method in absent]
    reasons += [f"{row.method}: {row.reason}" if len(rows) > 1 else row.reason for row in rows if row.score is None]
    average, deviation, count = spread(scores if whole else ())
    bounds = interval([parts(row.cells, weights) for row in rows]) if whole else None
    missing = [f"{cell.benchmark} on {cell.model}: {cell.worth.value}" for cell in cells if not cell.worth.counts]
    if len(missing) > _SHOWN:
        missing = [*missing[:_SHOWN], f"and {len(missing) - _SHOWN} more"]
    others = {}
    means = [task_means(row.cells) for row in rows] if whole else []
    for kind, other in reweighted(weights).items() if whole else ():
        if (found := _mean(rescored(mean_, other) for mean_ in means)) is not None:
            others[kind] = found
    seconds = [row.seconds for row in rows]
    tokens = _mean(row.tokens for row in rows)
    time_mean, time_std, _ = (
        spread(value for value in seconds if value is not None) if None not in seconds else (None,) * 3
    )
    return GroupScore(
        name=name,
        methods=tuple(row.method for row in rows),
        score=average,
        std=deviation,
        n=count if whole else len(rows),
        low=bounds.low if bounds else None,
        high=bounds.high if bounds else None,
        interval=bounds.of if bounds else "",
        raw_score=_mean(row.raw_score for row in rows),
        reason="; ".join(reasons),
        cells=len(cells),
        counted=sum(cell.worth.counts for cell in cells),
        missing=tuple(missing),
        letters=_letters(cells),
        agreement=agreement(cells),
        other_weights=others,
        seconds=time_mean,
        seconds_std=time_std,
        cost_usd=_mean(row.cost_usd for row in rows),
        tokens=None if tokens is None else round(tokens),
        marks=_marks(rows),
    )


def group_rows(
    methods: Sequence[MethodScore], weights: Mapping[str, float], groups: Mapping[str, Sequence[str]]
) -> tuple[GroupScore, ...]:
    """One row for each group, and one for each method that is in none; best first, those without score last.

    A group has a score when all its methods have one (E §5.7).
    """
    by_name = {row.method: row for row in methods}
    rows = []
    for name, members in groups.items():
        present = [by_name[method] for method in members if method in by_name]
        rows.append(_row(name, present, [method for method in members if method not in by_name], weights))
    grouped = {method for members in groups.values() for method in members}
    rows += [_row(row.method, [row], (), weights) for row in methods if row.method not in grouped]
    return tuple(sorted(rows, key=lambda row: (row.score is None, -(row.score or 0.0), row.name)))
