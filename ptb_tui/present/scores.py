"""The score table: every cell with the value used, the measured one, what the run is worth, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ptb_tui.core.scores import Worth
from ptb_tui.core.text import sanitize
from ptb_tui.present import numbers, words
from ptb_tui.present.runs import short_model, worth_cell
from ptb_tui.present.table import Cell, Span, Table, lay_out

if TYPE_CHECKING:
    from ptb_tui.core.scores import Board, CellScore, MethodScore
    from ptb_tui.present.output import Output

REASON = 240  # characters of a reason in the table; `show RUN` has all
EVIDENCE = 3  # pieces shown under a cell; `show RUN` has all


def board(out: Output, table: Board, *, published: bool = False, dry_run: bool = False) -> None:
    """The leaderboard and the whole board. Below each cell its reason and the first pieces of evidence; the base score
    is a column. `published`: also the rows published for the protocol."""
    out.line(f"Scores · protocol {table.protocol} · policy {table.policy}", "bold")
    if table.groups or (published and table.references):
        out.line()
        leaderboard(out, table, published=published)
    for method in table.methods:
        out.line()
        _method(out, table, method)
    if not table.methods:
        out.line("no runs yet")
    for problem in table.problems:
        out.note(problem)
    for path in table.files:
        out.note(f"would write {path}" if dry_run else f"wrote {path}")


def leaderboard(out: Output, table: Board, *, published: bool = False) -> None:
    """One row for each group of methods, best first; `*` marks a row with something mixed in it, named below."""
    columns = ("", "SCORE", "STD", "N", "95 % INTERVAL", "RAW", "CELLS", "FLAGS", "TIME", "COST", "TOKENS")
    rows = Table(columns, right=frozenset({1, 2, 3, 5, 6, 8, 9, 10}), rigid=frozenset(range(1, 11)), spare=(10, 9, 8))
    shown = [*table.groups, *(table.references if published else ())]
    shown.sort(key=lambda row: (row.score is None, -(row.score or 0.0), row.published, row.name))
    for row in shown:
        bounds = f"{numbers.score(row.low)[:-2]} – {numbers.score(row.high)}" if row.interval else numbers.UNKNOWN
        flags = " ".join(f"{name} {count}" for name, count in row.letters.items())
        rows.add(
            Cell(row.name + ("*" if row.marks else ""), "grey" if row.published else ""),
            Cell(numbers.score(row.score), "" if row.published else "bold"),
            numbers.score(row.std),
            str(row.n) if row.n else numbers.UNKNOWN,
            bounds if not row.published else numbers.UNKNOWN,
            numbers.score(row.raw_score),
            "published" if row.published else f"{row.counted}/{row.cells}",
            flags,
            numbers.duration(row.seconds),
            numbers.UNKNOWN if row.cost_usd is None else numbers.money(row.cost_usd),
            numbers.UNKNOWN if row.tokens is None else f"{row.tokens:,}",
        )
    out.spans(lay_out(rows, out.width))
    for row in shown:
        for note in filter(None, (row.reason, *row.marks)):
            out.line(f"{row.name}: {sanitize(note, limit=REASON, newlines=False)}", "grey", indent=2)
        if row.agreement[1]:
            agreed, several = row.agreement
            out.line(
                f"{row.name}: judges agree on {agreed} of {several} verdicts given several times", "grey", indent=2
            )
    kinds = sorted({row.interval for row in table.groups if row.interval})
    if kinds:
        out.line(f"intervals over {'; or over '.join(kinds)}", "grey", indent=2)


def worths(table: Board) -> dict[str, int]:
    """How many cells are worth what."""
    found: dict[str, int] = {}
    for row in table.methods:
        for cell in row.cells:
            found[cell.worth.value] = found.get(cell.worth.value, 0) + 1
    return found


def exit_code(cells: Mapping[str, int]) -> int:
    """The exit code of a table of cells: 0 every one counts, 5 one cannot be trusted yet, 1 one does not count."""
    kinds = {Worth(kind) for kind, count in cells.items() if count}
    if kinds & {Worth.UNJUDGED, Worth.QUARANTINED}:
        return 5
    return 0 if all(kind.counts for kind in kinds) else 1


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
