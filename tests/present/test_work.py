"""Work that goes on, as a bar, lines or events."""

from __future__ import annotations

import io
import json

import pytest

from ptb_tui.core.supply import WorkView
from ptb_tui.present.output import Output
from ptb_tui.present.work import Bar, Lines, bar, choose


def view(**more: object) -> WorkView:
    values = {"id": 7, "what": "hub", "state": "running", "words": "org/one: x", **more}
    return WorkView.model_validate(values)


def test_a_bar_says_how_much_and_how_long() -> None:
    text = bar(view(done=3_000_000, total=12_000_000), 10.0, 1_000_000)
    assert text == "██████░░░░░░░░░░░░░░░░░░  25 %  3.0 MB of 12.0 MB  200.0 kB/s, 45s left  org/one: x"
    assert bar(view(done=3, total=12), 0.5, 0, ascii_only=True).startswith("######....")
    assert bar(view(), 9.0, 0) == "org/one: x", "nothing is invented"
    assert "100 %" in bar(view(done=99, total=12), 9.0, 99) and "  0 %" in bar(view(done=-5, total=12), 9.0, 0)


def test_lines_are_for_people_and_events_for_programs() -> None:
    people = Output(stdout=io.StringIO(), stderr=io.StringIO())
    Lines(people).look(view(log="one\n\x1b[31mtwo\n"))
    assert isinstance(people.stderr, io.StringIO) and "\x1b" not in people.stderr.getvalue()
    assert len(people.stderr.getvalue().splitlines()) == 2
    programs = Output(as_json=True, stdout=io.StringIO(), stderr=io.StringIO())
    choose(programs).look(view(log="one\n"))
    assert isinstance(programs.stdout, io.StringIO)
    assert json.loads(programs.stdout.getvalue()) | {"t": ""} == {
        "v": 1,
        "event": "log",
        "t": "",
        "work": 7,
        "words": "one",
    }


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    out = Output(stdout=Terminal(), stderr=io.StringIO())
    show = choose(out)
    assert isinstance(show, Bar)
    show.look(view(done=1, total=2))
    show.look(view(done=2, total=2, words="\x1b]0;evil\x07ok"))
    show.close()
    assert isinstance(out.stdout, io.StringIO)
    assert "100 %" in out.stdout.getvalue() and "\x1b]0;evil" not in out.stdout.getvalue()
