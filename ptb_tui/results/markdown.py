"""The report as Markdown: leaderboard, cells, what is missing. Pure; every text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ptb_tui.core.scores import Board, GroupScore
from ptb_tui.core.text import sanitize
from ptb_tui.present import numbers
from ptb_tui.present.runs import short_model

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&])")


def safe(text: str, limit: int = 300) -> str:
    """Untrusted text in one line, with nothing that Markdown or HTML would take for its own."""
    return _SPECIAL.sub(r"\\\1", sanitize(text, limit=limit, newlines=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; cells are Markdown already."""
    lines = [f"| {' | '.join(columns)} |", f"|{'|'.join([' --- '] * len(columns))}|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def bounds(row: GroupScore) -> str:
    """The interval of a row; unknown where there is none."""
    return f"{numbers.score(row.low)[:-2]} – {numbers.score(row.high)}" if row.interval else numbers.UNKNOWN


def cost(row: GroupScore) -> str:
    """Money of one method of a row."""
    return numbers.UNKNOWN if row.cost_usd is None else numbers.money(row.cost_usd)


def tokens(row: GroupScore) -> str:
    """Tokens of one method of a row."""
    return numbers.UNKNOWN if row.tokens is None else f"{row.tokens:,}"


def flags(row: GroupScore) -> str:
    """How many cells have which flag."""
    return ", ".join(f"{name} {count}" for name, count in row.letters.items()) or "none"


def _leaderboard(board: Board) -> list[str]:
    columns = ("Row", "Score", "Std", "n", "95 % interval", "Raw", "Cells", "Flags", "Time", "Cost", "Tokens")
    rows = [
        (
            safe(row.name) + (" \\*" if row.marks else ""),
            f"**{numbers.score(row.score)}**",
            numbers.score(row.std),
            str(row.n),
            bounds(row),
            numbers.score(row.raw_score),
            f"{row.counted}/{row.cells}",
            flags(row),
            numbers.duration(row.seconds),
            cost(row),
            tokens(row),
        )
        for row in board.groups
    ]
    return table(columns, rows)


def _cells(board: Board) -> list[str]:
    rows = []
    for method in board.methods:
        for cell in method.cells:
            state = cell.worth.value + (f" {cell.letters}" if cell.letters else "")
            run = str(cell.run_id) if cell.run_id is not None else ""
            measured = numbers.score_error(cell.raw, cell.stderr)
            used = numbers.score(cell.used)
            rows.append((safe(cell.method), safe(cell.benchmark), safe(short_model(cell.model)), used, measured, state,
                         run, safe(cell.reason, 160)))  # fmt: skip
    return table(("Method", "Task", "Model", "Used", "Measured", "Worth", "Run", "Why"), rows)


def markdown(board: Board) -> str:
    """The whole report."""
    lines = [f"# Scores, protocol {safe(board.protocol)}, policy {board.policy}", "", *_leaderboard(board), ""]
    kinds = sorted({row.interval for row in board.groups if row.interval})
    lines += [f"Intervals are a bootstrap over {'; or over '.join(kinds)}.", ""] if kinds else []
    noted = [
        f"- {safe(row.name)}: {safe(words)}" for row in board.groups for words in (row.reason, *row.marks) if words
    ]
    lines += ["## Notes", "", *noted, ""] if noted else []
    missing = [f"- {safe(row.name)}: {safe(words)}" for row in board.groups for words in row.missing]
    lines += ["## Cells that do not count", "", *missing, ""] if missing else []
    if board.references:
        published = [(safe(row.name), numbers.score(row.score), numbers.score(row.std), str(row.n or numbers.UNKNOWN))
                     for row in board.references]  # fmt: skip
        lines += ["## Published references", "", *table(("Row", "Score", "Std", "n"), published), ""]
    lines += ["## Cells", "", *_cells(board), ""]
    lines += ["## Problems", "", *(f"- {safe(words)}" for words in board.problems), ""] if board.problems else []
    return "\n".join(lines)
