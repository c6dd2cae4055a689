from __future__ import annotations

import os
from pathlib import Path

import pytest

from ptb_tui.traces.marks import MarkReader, MarkWriter, late_ranges

HOUR = 3600.0


def grow(raw: Path, size: int) -> None:
    with raw.open("ab") as file:
        file.write(b"x" * (size - raw.stat().st_size))


def test_first_mark_that_reaches(tmp_path: Path) -> None:
    raw, path = tmp_path / "raw", tmp_path / "stamps"
    writer = MarkWriter(path)
    assert not writer.look(raw)
    raw.touch()
    for number, size in enumerate((5, 9, 30)):
        grow(raw, size)
        assert writer.look(raw, number * HOUR + 0.9)
        assert not writer.look(raw)
    reader = MarkReader(path)
    assert reader.known() == 30
    assert [reader.reach(end) for end in (1, 5, 6, 30)] == [
        (5, "1970-01-01T00:00:00Z"),
        (5, "1970-01-01T00:00:00Z"),
        (9, "1970-01-01T01:00:00Z"),
        (30, "1970-01-01T02:00:00Z"),
    ]
    with pytest.raises(LookupError):
        reader.reach(31)
    assert late_ranges(path) == []


def test_what_came_while_nobody_read_is_remembered(tmp_path: Path) -> None:
    raw, path = tmp_path / "raw", tmp_path / "stamps"
    raw.touch()
    first = MarkWriter(path)
    first.look(raw)
    grow(raw, 10)
    first.look(raw, HOUR)
    first.close()
    grow(raw, 25)
    os.utime(raw, (2 * HOUR, 2 * HOUR))
    with path.open("ab") as file:
        file.write(b"torn")
    second = MarkWriter(path)
    assert second.size == 10
    second.look(raw, 9 * HOUR)
    grow(raw, 30)
    second.look(raw, 10 * HOUR)
    assert late_ranges(path) == [(10, 25)]
    reader = MarkReader(path)
    assert reader.reach(11) == (25, "1970-01-01T02:00:00Z")  # not later than the last of them was written
    assert reader.reach(26) == (30, "1970-01-01T10:00:00Z")


def test_no_file_yet(tmp_path: Path) -> None:
    assert MarkReader(tmp_path / "stamps").known() == 0
