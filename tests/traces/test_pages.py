from __future__ import annotations

import io
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.traces import index
from ptb_tui.traces.pages import pages_for, write
from tests.traces.samples import DATA, parse, stamped

PIECES = [
    b"\n",
    b"[2026-08-01T09:00:00Z] ",
    b"text ",
    b"=== x",
    b"| ",
    b"\xff",
    b"\x1b[2J",
    "é\u202e".encode(),
    b"\r",
    b"\t",
]


def paged(data: bytes, family: str, cuts: list[int]) -> tuple[bytes, bytes]:
    pages = pages_for(family)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    parts = [pages.feed(data[a:b]) for a, b in pairwise(edges)] + [pages.close()]
    return b"".join(text for text, _ in parts), b"".join(found for _, found in parts)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20), st.lists(st.integers(0, 200), max_size=5))
def test_the_short_way_writes_the_same(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    assert paged(data, "plain", cuts) == write(parse(data, "plain"))


def test_claude_pages() -> None:
    data = stamped("claude.merged.txt")
    text, found = paged(data, "claude", [100, 3000])
    assert (text, found) == write(parse(data))
    assert [row.offset for row in index.rows(io.BytesIO(found))] == [event.offset for event in parse(data)]


def test_every_line_of_every_sample_is_in_the_text() -> None:
    for path in DATA.iterdir():
        data = stamped(path.name)
        text, _ = paged(data, "plain", [])
        assert text.count(b"[2026-08-01T09:00:00Z] ") == data.count(b"[2026-08-01T09:00:00Z] ")
