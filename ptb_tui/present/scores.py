"""The score table: every cell with the value used, the measured one, what the run is worth, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.core.text import sanitize
from ptb_tui.present import numbers, words
from ptb_tui.present.runs import short_model, worth_cell
from ptb_tui.present.table import Cell, Span, Table, lay_out

if TYPE_CHECKING:
    from ptb_tui.core.scores import Board, CellScore, MethodScore
    from ptb_tui.present.output import Output

REASON = 240  # characters of a reason in the table; `show RUN` has all
EVIDENCE = 3  # pieces shown under a cell; `show RUN` has all


def board(out: Output, table: Board) -> None:
    """The whole board. Below each cell its reason and the first pieces of evidence; the base score is a column."""
    out.line(f"Scores · protocol {table.protocol} · policy {table.policy}", "bold")
    for method in table.methods:
        out.line()
        _method(out, table, method)
    if not table.methods:
        out.line("no runs yet")
    for problem in table.problems:
        out.note(problem)
    for path in table.files:
        out.note(f"wrote {path}")


def _method(out: Output, table: Board, method: MethodScore) -> None:
    score = numbers.score(method.score)
    out.line(f"{method.method}   {score}" + (f"   {method.reason}" if method.reason else ""), "bold")
    columns = ("TASK", "MODEL", "USED", "MEASURED", "BASE", "WORTH", "RUN")
    rows = Table(columns, right=frozenset({2, 3, 4}), rigid=frozenset({2, 3, 4, 5, 6}))
    for cell in method.cells:
        base = table.baselines.get(cell.model, {}).get(cell.benchmark)
        rows.add(
            cell.benchmark,
            short_model(cell.model),
            Cell(numbers.score(cell.used), "bold"),
            numbers.score_error(cell.raw, cell.stderr),
            numbers.score(base),
            worth_cell(out, cell.worth, cell.letters),
            str(cell.run_id) if cell.run_id is not None else "",
        )
    width = out.width
    header, *lines = lay_out(rows, None if width is None else width - 2)
    out.spans([header], indent=2)
    for cell, line in zip(method.cells, lines, strict=True):
        out.spans([line], indent=2)
        _why(out, cell)


def _why(out: Output, cell: CellScore) -> None:
    reason = cell.reason if cell.reason not in ("", cell.worth.value) else words.worth_reason(cell.worth, cell.letters)
    out.line(sanitize(reason, limit=REASON, newlines=False), "grey", indent=6)
    for piece in cell.evidence[:EVIDENCE]:
        out.line(f"- {piece}", indent=8)
    if len(cell.evidence) > EVIDENCE:
        out.line(f"- and {len(cell.evidence) - EVIDENCE} more: ptb-tui show {cell.run_id}", indent=8)


def headline(code: int) -> Span:
    """The last line of a batch: its exit code in words."""
    told = {
        0: ("every cell counts", "green"),
        1: ("some cells do not count", "red"),
        5: ("some cells are unjudged or quarantined: nobody may trust them yet", "yellow"),
    }
    text, colour = told.get(code, (f"exit {code}", ""))
    return Span(text, colour)
