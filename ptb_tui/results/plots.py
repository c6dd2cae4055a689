"""Plots as inline SVG, drawn here and nowhere else. Pure; every text is escaped, every number finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from ptb_tui.core.text import sanitize

_ROW = 24  # height of a row
_LABEL = 230  # width of the labels
_PLOT = 520
_RIGHT = 130  # room for a value behind the plot
_TOP = 8
_AXIS = 30


@dataclass(frozen=True, slots=True)
class Mark:
    """One row of a plot of points: the value, its interval, and a second value drawn hollow; None is not drawn."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    other: float | None = None
    words: str = ""
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a plot of bars: parts as (value, class of `report.css`), one after the other."""

    label: str
    parts: Sequence[tuple[float, str]]
    words: str = ""


def text(value: str, limit: int = 200) -> str:
    """Untrusted text for HTML and SVG, in one line."""
    return escape(sanitize(value, limit=limit, newlines=False), quote=True)


def ticks(top: float, count: int = 5) -> list[float]:
    """Round numbers from 0 to at least `top`."""
    if not (math.isfinite(top) and top > 0):
        top = 1.0
    raw = top / count
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _frame(rows: int, marks: Sequence[float], shown: Callable[[float], str], title: str, body: Sequence[str]) -> str:
    height = _TOP + rows * _ROW
    width = _LABEL + _PLOT + _RIGHT
    top = marks[-1] or 1.0
    lines = []
    for value in marks:
        x = _number(_LABEL + value / top * _PLOT)
        lines.append(f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{height}"/>')
        lines.append(f'<text class="tick" x="{x}" y="{height + 16}" text-anchor="middle">{text(shown(value))}</text>')
    head = f'<svg viewBox="0 0 {width} {height + _AXIS}" role="img" aria-label="{text(title)}" width="{width}">'
    return "\n".join([head, f"<title>{text(title)}</title>", *lines, *body, "</svg>"])


def _label(label: str, row: int, words: str, faint: bool = False) -> list[str]:
    y = _TOP + row * _ROW + _ROW // 2 + 4
    short = label if len(label) <= 34 else f"{label[:33]}…"
    kind = "label faint" if faint else "label"
    found = [f'<text class="{kind}" x="{_LABEL - 8}" y="{y}" text-anchor="end">{text(short)}'
             f"<title>{text(label)}</title></text>"]  # fmt: skip
    if words:
        found.append(f'<text class="value" x="{_LABEL + _PLOT + 8}" y="{y}">{text(words)}</text>')
    return found


def points(rows: Sequence[Mark], shown: Callable[[float], str], title: str) -> str:
    """Values with intervals, one row each, on a scale from 0."""
    known = [v for row in rows for v in (row.value, row.low, row.high, row.other) if v is not None and math.isfinite(v)]
    marks = ticks(max(known, default=1.0))

    def x(value: float) -> str:
        return _number(_LABEL + min(max(value, 0.0), marks[-1]) / marks[-1] * _PLOT)

    body: list[str] = []
    for number, row in enumerate(rows):
        y = _number(_TOP + number * _ROW + _ROW / 2)
        body += _label(row.label, number, row.words, row.faint)
        if row.low is not None and row.high is not None:
            body.append(f'<line class="whisker" x1="{x(row.low)}" y1="{y}" x2="{x(row.high)}" y2="{y}"/>')
        if row.other is not None:
            body.append(f'<circle class="hollow" cx="{x(row.other)}" cy="{y}" r="5"/>')
        if row.value is not None:
            kind = "dot faint" if row.faint else "dot"
            body.append(f'<circle class="{kind}" cx="{x(row.value)}" cy="{y}" r="4.5"/>')
    return _frame(len(rows), marks, shown, title, body)


def bars(rows: Sequence[Bar], shown: Callable[[float], str], title: str, *, top: float | None = None) -> str:
    """Bars of parts, one row each, on a scale from 0 to `top` or the longest bar."""
    longest = max((sum(value for value, _ in row.parts) for row in rows), default=1.0)
    marks = ticks(longest if top is None else top)
    body: list[str] = []
    for number, row in enumerate(rows):
        body += _label(row.label, number, row.words)
        x, y = float(_LABEL), _TOP + number * _ROW + 5
        for value, kind in row.parts:
            width = max(value, 0.0) / marks[-1] * _PLOT
            if width > 0:
                place = f'x="{_number(x)}" y="{y}" width="{_number(width)}" height="{_ROW - 10}"'
                body.append(f'<rect class="{text(kind)}" {place}/>')
                x += width
    return _frame(len(rows), marks, shown, title, body)
