"""Untrusted text."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.text import sanitize

evil = st.text(alphabet=st.sampled_from("ab\x1b[]0;31m\x07\x9b\u202e\u200b\r\n\tP\\\x00\x7f\x85"), max_size=40)


@given(st.one_of(st.text(), evil, st.binary()))
def test_nothing_that_moves_a_terminal_is_left(value: str | bytes) -> None:
    shown = sanitize(value)
    assert not any(unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t" for char in shown)
    assert "\u202e" not in shown and "\u200b" not in shown
    assert sanitize(shown) == shown


@given(st.one_of(st.text(), evil), st.integers(1, 20))
def test_one_line_of_a_given_length(value: str, limit: int) -> None:
    shown = sanitize(value, limit=limit, newlines=False)
    assert len(shown) <= limit and "\n" not in shown and "\t" not in shown


def test_titles_links_and_colours_vanish() -> None:
    assert sanitize("\x1b]0;owned\x07a\x1b[31mb\x1b[0m\x1b]8;;http://x\x1b\\c") == "abc"
    assert sanitize("x" * 10_000_000, limit=10) == "xxxxxxxxx…"
