import io
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.present.output import Output, ReaderGone, encode
from ptb_tui.present.table import Span


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=2), JSON, max_size=4))
def test_every_record_is_one_ascii_line_of_real_json(record: dict[str, Any]) -> None:
    line = encode(record)
    assert line.isascii() and "\n" not in line

    def refuse(word: str) -> None:
        raise AssertionError(word)

    read = json.loads(line, parse_constant=refuse)
    assert read["v"] == 1 and set(read) == {"v", *record}


def test_numbers_without_a_json_word_become_null() -> None:
    assert json.loads(encode({"a": [math.nan, {"b": math.inf}], "c": 1.5})) == {
        "v": 1,
        "a": [None, {"b": None}],
        "c": 1.5,
    }


@pytest.mark.parametrize(
    ("env", "controls", "colour"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, False, False),
        ({}, False, False),
    ],
)
def test_colour_is_asked_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], controls: bool, colour: bool
) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    out = Output(stdout=Tty(), stderr=io.StringIO())
    assert (out.controls, out.colour) == (controls, colour)
    assert ("\x1b" in out.paint([Span("x", "red")])) is colour
    assert not Output(as_json=True, stdout=Tty(), stderr=io.StringIO()).controls
    assert not Output(stdout=io.StringIO(), stderr=io.StringIO()).controls


def test_columns_zero_is_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    width = Output(stdout=Tty(), stderr=io.StringIO()).width
    assert width is not None and width >= 40
    assert Output(stdout=io.StringIO(), stderr=io.StringIO()).width is None


@given(st.text())
def test_lines_and_notes_are_one_safe_line(text: str) -> None:
    out = Output(stdout=io.StringIO(), stderr=io.StringIO())
    out.line(text, "red")
    out.note(text)
    for stream in (out.stdout, out.stderr):
        assert isinstance(stream, io.StringIO)
        written = stream.getvalue()
        assert written.endswith("\n") and written.count("\n") == 1
        assert not {char for char in written[:-1] if ord(char) < 32 or 127 <= ord(char) < 160}


def test_a_closed_stdout_is_told_apart_and_a_closed_stderr_ignored() -> None:
    with pytest.raises(ReaderGone):
        Output(stdout=Closed(), stderr=io.StringIO()).line("x")
    Output(stdout=io.StringIO(), stderr=Closed()).note("x")
