"""Lists of runs, one run in full, and the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from ptb_tui.present import numbers, words
from ptb_tui.present.table import Cell, Table
from ptb_tui.present.verdicts import side_by_side

if TYPE_CHECKING:
    from ptb_tui.core.query import QueueView, RunDetail, RunList, RunRow
    from ptb_tui.present.output import Output


def short_model(model: str) -> str:
    """A model without its organisation."""
    return model.rpartition("/")[2] or model


def state_cell(out: Output, row: RunRow) -> Cell:
    """State of a run as glyph and word."""
    look = words.state(row.state, row.step)
    return Cell(look.text(ascii_only=out.ascii_only), look.colour)


def worth_cell(out: Output, name: str, letters: str = "") -> Cell:
    """Worth of a run as glyph and word, with the letters of its flags."""
    look = words.worth(name)
    return Cell(f"{look.text(ascii_only=out.ascii_only)} {letters}".rstrip(), look.colour) if look.word else Cell("")


def row_worth(out: Output, row: RunRow) -> Cell:
    """Worth of a run in a list; empty while it runs, as its state says that already."""
    return worth_cell(out, row.worth if row.worth != "running" else "", row.letters)


def phase_words(row: RunRow) -> str:
    """The phase of the running step, unless it only repeats the step's name."""
    return "" if not row.phase or row.step.startswith(row.phase) else row.phase


def step_words(row: RunRow) -> str:
    """Where a run stands among its steps: "1/6 agent", while it runs with its phase."""
    if not row.steps_total:
        return words.step(row.step)
    if row.steps_ended >= row.steps_total:
        return f"{row.steps_total}/{row.steps_total}"
    name = words.step(row.step) or "step"
    phase = f" ({shown})" if (shown := phase_words(row)) else ""
    return f"{row.steps_ended + 1}/{row.steps_total} {name}{phase}"


def _table(out: Output, rows: Iterable[RunRow]) -> Table:
    columns = ("RUN", "METHOD", "TASK", "MODEL", "STATE", "STEP", "TIME", "WORTH", "MEASURED")
    table = Table(columns, right=frozenset({0, 6, 8}), rigid=frozenset({0, 4, 6, 7, 8}), spare=(5, 6))
    for row in rows:
        table.add(
            str(row.id),
            row.method,
            row.benchmark,
            Cell(row.model, short=short_model(row.model)),
            state_cell(out, row),
            step_words(row),
            numbers.duration(row.seconds),
            row_worth(out, row),
            numbers.score(row.score),
        )
    return table


def plain_list(out: Output, rows: Sequence[dict[str, Any]], problems: Iterable[str]) -> None:
    """Newest first, one line a run; what could not be read goes to stderr. `rows` hold the fields of a `RunRow`."""
    if out.as_json:
        for row in rows:
            out.record({"kind": "run", **row})
    elif rows:
        out.table(_table(out, (cast("RunRow", SimpleNamespace(**row)) for row in rows)))
    else:
        out.note("no runs")
    for problem in problems:
        out.note(problem)


def run_list(out: Output, answer: RunList) -> None:
    """An answer to `RunsQuery`, as `plain_list` shows it."""
    plain_list(out, [row.model_dump(mode="json") for row in answer.runs], answer.problems)


def queue(out: Output, view: QueueView) -> None:
    """Slots with their holders, then what runs and what waits."""
    busy = sum(slot.busy for slot in view.slots)
    out.line(f"{busy} of {numbers.count(len(view.slots), 'slot')} busy", "bold")
    slots = Table(("SLOT", "", "HOLDER"))
    for slot in view.slots:
        slots.add(slot.name, Cell("busy", "cyan") if slot.busy else Cell("free", "grey"), slot.holder)
    if view.slots:
        out.table(slots, indent=2)
    for title, rows in (("Running", view.running), ("Waiting", view.waiting)):
        out.line(f"{title}: {len(rows)}", "bold")
        if rows:
            out.table(_table(out, rows), indent=2)


def run_detail(out: Output, detail: RunDetail) -> None:
    """Everything known about one run: what it is worth and why, its steps, verdicts with evidence, files."""
    row = detail.row
    out.line(f"Run {row.id}   {row.method} · {row.benchmark} · {row.model}", "bold")
    state = words.state(row.state, row.step)
    facts = [state.text(ascii_only=out.ascii_only), step_words(row), numbers.left(row.remaining), *row.flags]
    out.line("State     " + " · ".join(fact for fact in facts if fact), state.colour)
    if row.cause:
        out.line(f"Cause     {words.cause(row.cause)}")
    if row.worth and row.worth != "running":
        worth = words.worth(row.worth)
        spelled = f" ({words.letters(row.letters)})" if row.letters else ""
        value = f" · measured {numbers.score(row.score)}" if row.score is not None else ""
        out.line(f"Worth     {worth.text(ascii_only=out.ascii_only)}{spelled}{value}", worth.colour)
    pairs = (("Reason", row.reason), ("Folder", row.path), ("Created", row.created), ("Sweep", row.sweep_name))
    for title, text in pairs:
        if text:
            out.line(f"{title:<10}{text}")
    _steps(out, detail)
    if detail.verdicts and not detail.steps:
        out.line()
    side_by_side(out, detail.verdicts)
    if detail.metrics:
        named = [(key, value) for key, value in detail.metrics.items() if key != "per_seed"][:12]
        out.line("Metrics   " + ", ".join(f"{key} {value}" for key, value in named))
    if detail.spread:
        out.line(f"Seeds     {_spread(detail.spread)}")
    if detail.files:
        files = Table(("FILE", "SIZE"), right=frozenset({1}))
        for name, count in sorted(detail.files.items()):
            files.add(name, numbers.size(count))
        out.line()
        out.table(files, indent=2)


def _spread(found: Mapping[str, float | int | None]) -> str:
    """Mean, spread and interval over seeds; one seed has neither of the latter."""
    mean, std, low, high = (found.get(name) for name in ("mean", "std", "low", "high"))
    if std is None or low is None or high is None:
        return f"1: {mean:.4f}; one seed has no spread"
    return f"{found.get('n')}: mean {mean:.4f}, standard deviation {std:.4f}, 95 % interval {low:.4f} to {high:.4f}"


def _steps(out: Output, detail: RunDetail) -> None:
    if not detail.steps:
        return
    table = Table(("#", "STEP", "STATE", "TIME", "LIMIT", "WHY"), right=frozenset({0, 3, 4}))
    for step in detail.steps:
        look = words.state(step.state, step.name)
        why = " · ".join(part for part in (words.cause(step.cause), step.why, *step.flags) if part)
        table.add(
            str(step.number),
            words.step(step.name),
            Cell(look.text(ascii_only=out.ascii_only), look.colour),
            numbers.duration(step.seconds),
            numbers.duration(step.limit_s),
            why,
        )
    out.line()
    out.table(table, indent=2)
    out.line()
