"""Plain tables: fixed columns, East-Asian widths, untrusted text made safe. Pure; styling is applied by the caller."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from ptb_tui.core.text import sanitize

CELL_LIMIT = 400  # characters of one cell; a longer one is cut before it is measured
_GAP = 2
_SMALLEST = 8  # no column is squeezed below this


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line in one colour."""

    text: str
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; its text may be untrusted. `short` takes its place where the table is wider than its room."""

    text: str
    colour: str = ""
    short: str = ""


@dataclass(slots=True)
class Table:
    """Columns and rows. `right` and `rigid` are column numbers: right-aligned ones, and ones that are never cut.
    `spare` are those that are left out, in this order, before any is cut."""

    columns: Sequence[str]
    rows: list[Sequence[Cell]] = field(default_factory=list)
    right: frozenset[int] = frozenset()
    rigid: frozenset[int] = frozenset()
    spare: Sequence[int] = ()

    def add(self, *cells: Cell | str) -> None:
        """Append a row; plain text has no colour."""
        self.rows.append([cell if isinstance(cell, Cell) else Cell(cell) for cell in cells])


def text_width(text: str) -> int:
    """Terminal cells that a text without control characters takes."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


@cache
def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The text in at most `width` cells; a cut is marked with "…"."""
    if text_width(text) <= width:
        return text
    if width <= 0:
        return ""
    used, kept = 0, []
    for char in text:
        used += _char_width(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text cut or filled to exactly `width` cells."""
    taken = text_width(text)
    if taken > width:
        text = cut(text, width)
        taken = text_width(text)
    fill = " " * (width - taken)
    return fill + text if right else text + fill


def _fit(widths: list[int], rigid: frozenset[int], room: int) -> list[int]:
    """Take from the widest columns until the row fits, or nothing more can be taken."""
    widths = list(widths)
    while _whole(widths) > room:
        soft = [number for number in range(len(widths)) if number not in rigid and widths[number] > _SMALLEST]
        if not soft:
            break
        widest = max(soft, key=lambda number: widths[number])
        widths[widest] -= 1
    return widths


def _safe(text: str) -> str:
    if len(text) <= CELL_LIMIT and text.isprintable():  # nearly every cell; `sanitize` would change nothing
        return text
    return sanitize(text, limit=CELL_LIMIT, newlines=False)


def lay_out(table: Table, width: int | None = None) -> list[list[Span]]:
    """The lines of a table, header first, each a list of coloured pieces. `width` None: as wide as it needs."""
    body = [[(_safe(cell.text), cell.colour) for cell in row] for row in table.rows]
    widths = _widths(table.columns, body)
    columns = list(range(len(widths)))
    if width is not None and _whole(widths) > width:
        body = [[(_safe(cell.short or cell.text), cell.colour) for cell in row] for row in table.rows]
        widths = _widths(table.columns, body)
        for number in table.spare:
            if _whole([widths[left] for left in columns]) > width:
                columns.remove(number)
        body = [[row[number] for number in columns] for row in body]
        rigid = frozenset(place for place, number in enumerate(columns) if number in table.rigid)
        widths = _fit([widths[number] for number in columns], rigid, width)
    right = frozenset(place for place, number in enumerate(columns) if number in table.right)
    lines = [_line([(table.columns[number], "bold") for number in columns], widths, right)]
    lines.extend(_line(row, widths, right) for row in body)
    return lines


def _widths(columns: Sequence[str], body: Sequence[Sequence[tuple[str, str]]]) -> list[int]:
    widths = [text_width(name) for name in columns]
    for row in body:
        for number, (text, _) in enumerate(row):
            widths[number] = max(widths[number], text_width(text))
    return widths


def _whole(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _line(row: Sequence[tuple[str, str]], widths: Sequence[int], right: frozenset[int]) -> list[Span]:
    spans: list[Span] = []
    last = max((number for number, (text, _) in enumerate(row) if text), default=-1)
    for number, (text, colour) in enumerate(row[: last + 1]):
        if number:
            spans.append(Span(" " * _GAP))
        aligned = number in right
        shown = pad(text, widths[number], right=aligned) if aligned or number < last else cut(text, widths[number])
        spans.append(Span(shown, colour))
    return spans


def plain(lines: Iterable[Sequence[Span]]) -> list[str]:
    """Lines without colour."""
    return ["".join(span.text for span in line) for line in lines]
