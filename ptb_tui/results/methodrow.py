"""One method of a board: its cells, its score, and what is mixed in it (E §5.2, §5.6). Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from ptb_tui.core.scores import CellScore, MethodScore
from ptb_tui.results.cells import ABSENT, cell, same_model, same_short_model, withheld
from ptb_tui.results.earlier import LETTERS, earlier
from ptb_tui.results.leaderboard import weighted_score
from ptb_tui.results.records import RunRecord
from ptb_tui.results.scoring import Rules


def _score(rules: Rules, cells: Sequence[CellScore]) -> tuple[float | None, str]:
    """The weighted score, or why there is none. Every weighted cell must have a value (E §5.6)."""
    weighted = {benchmark for benchmark, weight in rules.weights.items() if weight}
    if not weighted:
        return None, f"protocol {rules.protocol} has no weights"
    absent = sorted(weighted - set(rules.tasks))
    if absent:
        return None, f"weighted but no task of the protocol: {', '.join(absent)}"
    held = [found for found in cells if withheld(found)] if rules.policy == "upstream" else []
    if held:
        judges = {judge for found in held for judge, state in found.verdicts.items() if state in ABSENT}
        plural = "run lacks" if len(held) == 1 else "runs lack"
        return None, f"{len(held)} scored {plural} a verdict ({', '.join(sorted(judges))}): {_listed(held)}"
    empty = [found for found in cells if found.used is None and found.benchmark in weighted]
    if empty:
        kinds = Counter(found.worth.value for found in empty)
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        plural = "cell has" if len(empty) == 1 else "cells have"
        return None, f"{len(empty)} {plural} no value ({listed}): {_listed(empty)}"
    return _weighted(rules, {(found.benchmark, found.model): found.used for found in cells}), ""


def _listed(cells: Sequence[CellScore]) -> str:
    where = "; ".join(f"{found.benchmark} on {found.model}" for found in cells[:3])
    return where + (f" and {len(cells) - 3} more" if len(cells) > 3 else "")


def _weighted(rules: Rules, values: Mapping[tuple[str, str], float | None]) -> float | None:
    """Σ weight × mean over models; None while a weighted cell has no value."""
    weights = {name: weight for name, weight in rules.weights.items() if weight}
    rows: dict[str, dict[str, float]] = defaultdict(dict)
    for (benchmark, model), value in values.items():
        if value is not None:
            rows[model][benchmark] = value
        elif benchmark in weights:
            return None
    complete = bool(weights) and bool(rows) and set(weights) <= set(rules.tasks)
    return weighted_score(weights, rows) if complete else None


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


def _marks(chosen: Sequence[RunRecord], differs: Callable[[str, str], str]) -> tuple[str, ...]:
    """What is mixed among the runs of one row: one row should hold one fingerprint and one CLI (design §4)."""
    marks = []
    foreign = [record for record in chosen if record.foreign]
    if 0 < len(foreign) < len(chosen):
        marks.append(f"{len(foreign)} of {len(chosen)} cells are runs of others ({_origins(foreign)}), taken as asked")
    prints = Counter(record.fingerprint for record in chosen if not record.foreign)
    if len(prints) > 1:
        first, *others = sorted(prints)
        said = "; ".join(words for other in others if (words := differs(first, other)))
        marks.append(
            f"cells of {len(prints)} fingerprints of the protocol are mixed: {_counted(prints)}"
            + (f" ({said})" if said else "")
        )
    versions = Counter(version for record in chosen if (version := str(record.values.get("cli_version") or "")))
    if len(versions) > 1:
        marks.append(f"{len(versions)} versions of the CLI are mixed: {_counted(versions)}")
    return tuple(marks)


def _origins(records: Sequence[RunRecord]) -> str:
    return ", ".join(sorted({record.origin for record in records}))


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name or 'none'} ({count})" for name, count in sorted(counts.items()))


def _grid(
    rules: Rules, records: Sequence[RunRecord], problems: list[str]
) -> tuple[dict[tuple[str, str], list[RunRecord]], int]:
    """The runs by task and model of the protocol, and how many fit none. The original ignores the organisation of a
    model, and knows run names of exactly four parts (E §5.2)."""
    same = same_short_model if rules.policy == "upstream" else same_model
    names: dict[str, str] = {}
    grid: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    outside = 0
    for record in records:
        if record.model not in names:
            names[record.model] = next((model for model in rules.models if same(record.model, model)), "")
        model = names[record.model]
        if not model or record.benchmark not in rules.tasks:
            outside += 1
        elif rules.policy == "upstream" and record.place == "run" and record.run_name.count("_") != 3:
            problems.append(f"{record.relative}: not benchmark, org, model and id, which is what the original reads")
        else:
            grid[record.benchmark, model].append(record)
    return grid, outside


def _cells(rules: Rules, method: str, grid: Mapping[tuple[str, str], Sequence[RunRecord]]) -> tuple[CellScore, ...]:
    """The cells of a method. Under `upstream` a task or model without any run has no value: the original has no row
    or column for it then, and the method no score."""
    seen = [{key[axis] for key, runs in grid.items() if any(run.place == "run" for run in runs)} for axis in (0, 1)]
    cells = []
    for benchmark in rules.tasks:
        for model in rules.models:
            baseline = rules.baseline(model, benchmark)
            known = rules.policy != "upstream" or (benchmark in seen[0] and model in seen[1])
            found = cell(
                method,
                benchmark,
                model,
                grid.get((benchmark, model), ()),
                baseline=baseline if known else None,
                judges=rules.judges,
                policy=rules.policy,
            )
            cells.append(found)
    return tuple(cells)


def _mean_seconds(cells: Sequence[CellScore]) -> float | None:
    times = [found.seconds for found in cells if found.raw is not None and found.seconds is not None]
    return sum(times) / len(times) if times else None


def _method(rules: Rules, method: str, records: Sequence[RunRecord], problems: list[str]) -> MethodScore | None:
    """One row; None when the method has no run in the grid."""
    kept = _of_protocol(rules, records, method, problems)
    grid, outside = _grid(rules, kept, problems)
    if not grid:
        return None
    if outside:
        plural = "run" if outside == 1 else "runs"
        problems.append(f"{method}: {outside} {plural} outside the tasks and models of the protocol left out")
    cells = _cells(rules, method, grid)
    used = {found.run for found in cells if found.run}
    chosen = [record for record in kept if record.relative in used]
    marks = _marks(chosen, rules.differs)
    problems += [f"{method}: {mark}" for mark in marks]
    for record in kept:
        if record.relative in used:
            problems += [f"{record.relative}: {words}" for words in record.problems]
        elif record.values.get("pin") and rules.policy != "finished":
            problems.append(f"{record.relative}: is pinned, which the policy {rules.policy} does not heed")
    score, reason = _score(rules, cells)
    held = rules.policy == "upstream" and any(withheld(found) for found in cells)
    if held:
        problems.append(f"{method}: no table, as the original writes none: {reason}")
    raw = {(found.benchmark, found.model): found.raw if found.raw is not None else found.used for found in cells}
    return MethodScore(
        method=method,
        protocol=rules.protocol,
        score=score,
        raw_score=_weighted(rules, raw) if score is not None else None,
        reason=reason,
        cells=cells,
        seconds=_mean_seconds(cells),
        marks=marks,
        withheld=held,
    )


def method_rows(rules: Rules, method: str, records: Sequence[RunRecord], problems: list[str]) -> list[MethodScore]:
    """The row of a method, and one of each fingerprint that another one has replaced in some cell; the original knows
    no fingerprints."""
    row = _method(rules, method, records, problems)
    if row is None:
        return []
    rows = [row]
    for name, runs in earlier(records, row.cells, rules.protocol) if rules.policy != "upstream" else ():
        older = _method(rules, f"{method}@{name[:LETTERS]}", runs, [])
        if older is not None:
            others = sorted({found.fingerprint for found in row.cells if found.fingerprint} - {name})
            said = rules.differs(name, others[0]) if len(others) == 1 else ""
            mark = f"runs of fingerprint {name}, which others replace" + (f"; since then {said}" if said else "")
            problems.append(f"{older.method}: {mark}")
            rows.append(older.model_copy(update={"marks": (mark, *older.marks)}))
    return rows
