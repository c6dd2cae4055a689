from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.traces.literals import literal

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None)
@given(VALUES)
def test_what_python_prints_is_read_again(value: Any) -> None:
    if isinstance(value, str):
        value = [value]  # bare text may look like anything
    assert literal(repr(value)) == value


@pytest.mark.parametrize("text", ["", "hello", "{'a': print()}", "{1, 2}", "'open", "[" * 100_000, "-" * 100_000 + "1",
                                  "1+" * 50_000 + "1", "'\\'" * 50_000, "{'a' 'b'}"])  # fmt: skip
def test_anything_else_stays_text(text: str) -> None:
    assert literal(text) == text


def test_json_first() -> None:
    assert literal('{"a": true, "b": "x\\ny"}') == {"a": True, "b": "x\ny"}
    assert literal("{'a': True, 'b': 'x\\ny\\x41\\u00e9'}") == {"a": True, "b": "x\nyAé"}


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="{}[]'\",: \\TrueNone0-9.eE\n", max_size=80))
def test_total(text: str) -> None:
    literal(text)
