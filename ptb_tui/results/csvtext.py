"""Rows as CSV text, and times as the original's tables have them. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """CSV with line feeds alone."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def number(value: float | None) -> str:
    """A number so that it reads back as the same; empty when there is none."""
    return "" if value is None else repr(float(value))


def clock(seconds: int) -> str:
    """Whole seconds as H:MM:SS."""
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
