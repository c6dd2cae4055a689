"""Models measured as they are: a table, the plan of a measurement, lines for a protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.present import numbers
from ptb_tui.present.table import Table

if TYPE_CHECKING:
    from ptb_tui.core.baseline import BaselinesView
    from ptb_tui.present.output import Output


def table(out: Output, view: BaselinesView) -> None:
    """Everything that was measured, then the lines of what is whole."""
    if not view.rows:
        out.note("nothing was measured here yet: ptb-tui baseline TASK MODEL")
        return
    rows = Table(("TASK", "MODEL", "ACCURACY", "STDERR", "SEEDS", "ITEMS", "PROTOCOL", "WHEN"), right=frozenset({2, 3}))
    for row in view.rows:
        accuracy = f"{row.accuracy:.4f}" if row.accuracy is not None else f"{row.count} answers"
        stderr = f"{row.stderr:.4f}" if row.stderr is not None else ""
        items = "all" if row.limit == -1 else str(row.limit)
        rows.add(row.task, row.model, accuracy, stderr, str(len(row.seeds)), items, row.protocol, row.t[:16])
    out.table(rows)
    lines(out, view, every=True)


def lines(out: Output, view: BaselinesView, *, every: bool = False) -> None:
    """What goes into a protocol file: the newest whole measurement, with `every` that of each task and model."""
    found: dict[str, dict[str, str]] = {}
    for row in view.rows if every else view.rows[:1]:
        if row.whole and row.line:
            found.setdefault(row.model, {}).setdefault(row.task, row.line)
    for model in sorted(found):
        out.line(f'[baselines."{model}"]')
        for task in sorted(found[model]):
            out.line(found[model][task])


def plan(out: Output, view: BaselinesView) -> None:
    """What would be done, and what stands in the way."""
    if (found := view.plan) is None:
        return
    seeds = ", ".join(str(seed) for seed in found.seeds)
    items = "all items" if found.limit == -1 else numbers.count(found.limit, "item")
    out.line(f"{found.model} on {found.task}, protocol {found.protocol}: {items}, seeds {seeds}", "bold")
    facts = {
        "model": found.folder,
        "sandbox": found.sandbox,
        "runs in": found.slots,
        "attempts": f"at most {found.attempts} a seed",
        "grader": found.grader,
        "writes": found.answers,
    }
    for name, value in facts.items():
        if value:
            out.line(f"{name:9} {value}", indent=2)
    for problem in found.problems:
        words = f"{problem.words} → {problem.remedy}" if problem.remedy else problem.words
        out.note(words)
    if view.rows:
        out.line(f"measured before: {len(view.rows)} times, last {view.rows[0].t[:16]}", "grey")
