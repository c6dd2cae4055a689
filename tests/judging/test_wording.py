"""What is looked for first must be in every text that the patterns find."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.judging import wording
from ptb_tui.judging.wording import at_odds


@pytest.mark.parametrize("flag", sorted(wording._ASSERTED))
@given(data=st.data())
def test_every_assertion_has_one_of_its_pieces(flag: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(wording._ASSERTED[flag]))
    assert any(piece in text.lower() for piece in wording._PIECES[flag])


@pytest.mark.parametrize("flag", sorted(wording._ASSERTED))
@given(data=st.data())
def test_an_assertion_is_seen_whatever_its_letters(flag: str, data: st.DataObject) -> None:
    words = data.draw(st.from_regex(wording._ASSERTED[flag], fullmatch=True))
    assert at_odds({flag: False, f"justification_{flag}": f"Therefore it {words}."})
    assert not at_odds({flag: True, f"justification_{flag}": f"Therefore it {words}."})
