from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.traces.marks import MarkReader, MarkWriter
from ptb_tui.traces.redact import Redactor
from ptb_tui.traces.transcript import Transcriber

SECRETS = {"A_KEY": "abcdefghijklmn"}
PIECES = [b"abcdef", b"ghij", b"klmn", b"\n", b"\n", b"\r\n", b"abcdefghijklmn", b"x\n", b"\xff", b"y" * 1100, b""]


def transcribe(parts: list[bytes], looks: list[bool]) -> tuple[bytes, bytes, int, dict[str, int]]:
    """Each part arrives at an hour of its own; where `looks` says so, what is there is taken at once."""
    with tempfile.TemporaryDirectory() as folder:
        raw, stamps = Path(folder) / "raw", Path(folder) / "stamps"
        writer = MarkWriter(stamps)
        writer.look(raw)
        raw.touch()
        fd = os.open(raw, os.O_RDONLY)
        transcriber = Transcriber(fd, MarkReader(stamps), Redactor(SECRETS), batch=1)
        taken = []
        for number, part in enumerate(parts):
            with raw.open("ab") as file:
                file.write(part)
            writer.look(raw, number * 3600.0)
            if looks[number % len(looks)]:
                taken += list(transcriber.take(None))
        size = raw.stat().st_size
        while transcriber.offset < size:
            before = transcriber.offset
            taken += list(transcriber.take(size))
            assert transcriber.offset > before
        os.close(fd)
        counts: dict[str, int] = {}
        for part_ in taken:
            for name, count in part_.redacted.items():
                counts[name] = counts.get(name, 0) + count
        return (b"".join(part.text for part in taken), b"".join(part.raw for part in taken),
                sum(part.lines for part in taken), counts)  # fmt: skip


def test_stamps_are_those_of_the_arrival() -> None:
    text, _, lines, _ = transcribe([b"one\ntw", b"o\nthree\n", b"end"], [False])
    assert lines == 4
    assert text.replace(b"[1970-01-01T0", b"@").replace(b":00:00Z]", b"") == b"@0 one\n@1 two\n@1 three\n@2 end"


def test_a_key_over_two_lines_that_arrive_apart() -> None:
    text, _, _, counts = transcribe([b"a abcdefgh\n", b"ijklmn z\n"], [True])
    assert text.count(b"[redacted:A_KEY]") == 2 and counts == {"A_KEY": 1}


def test_a_key_in_a_line_longer_than_a_batch() -> None:
    line = b"v" * 9000 + b"abcdefghijklmn" + b"w" * 9000
    text, raw, lines, counts = transcribe([line + b"\n", b"next\n"], [True])
    assert raw == line + b"\nnext\n" and lines == 2 and counts == {"A_KEY": 1}
    assert text.startswith(b"[1970-01-01T00:00:00Z] " + b"v" * 9000 + b"[redacted:A_KEY]w")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=16), st.lists(st.booleans(), min_size=1, max_size=8))
def test_the_text_does_not_depend_on_when_it_is_taken(parts: list[bytes], looks: list[bool]) -> None:
    text, raw, lines, counts = transcribe(parts, looks)
    assert raw == b"".join(parts)
    assert (text, raw, lines, counts) == transcribe(parts, [False])
    assert text.count(b"\n") == raw.count(b"\n")
    assert lines == len(raw.split(b"\n")) - raw.endswith(b"\n") - (not raw)
    assert b"abcdefghijklmn" not in text
