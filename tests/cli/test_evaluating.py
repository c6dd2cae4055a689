"""The verb `eval` up to the action it asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.cli.evaluating import seeds_of
from ptb_tui.core.errors import UsageError


def test_seeds_are_read() -> None:
    assert seeds_of("") == () and seeds_of("72332, 87681,0") == (72332, 87681, 0)


@pytest.mark.parametrize("text", ["x", "1,", ",", "1,,2", "-1", "1.5", "٣", "1,1", "1 2", str(1 << 31)])
def test_what_is_no_list_of_seeds_has_words(text: str) -> None:
    with pytest.raises(UsageError, match="--seeds"):
        seeds_of(text)


@given(st.text(max_size=20))
def test_any_text_gets_an_answer(text: str) -> None:
    try:
        found = seeds_of(text)
    except UsageError:
        return
    assert len(set(found)) == len(found)
