"""Reasoning and repetition are cut from answers (E §1.5.6)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tasks.loading import load

replies = load("ptb_replies")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think>b</think>c", "b</think>c"),
        ("<think>never closed", "<think>never closed"),
        (" <think>a</think>b", " <think>a</think>b"),
        ("a</think>b", "a</think>b"),
        ("<think></think>", ""),
    ],
)
def test_without_thinking(text: str, left: str) -> None:
    assert replies.without_thinking(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("line\n" * 9 + "end", "line\n" * 5 + "end"),
        ("a\nb\n" * 9 + "end", "a\nb\n" * 5 + "end"),
        ("\n".join(["one", "two", "three"] * 8 + ["one", "two"]), "\n".join(["one", "two", "three"] * 5)),
        ("tick " * 40, "tick " * 5),
        ("x" * 4 + "abc" * 6 + "y", "xxxx" + "abc" * 5 + "y"),
        ("abc" * 5, "abc" * 5),
        ("0123456789" * 30 + "!", "0123456789" * 5 + "!"),
        ("A poem.\n\nIts second verse.", "A poem.\n\nIts second verse."),
        ("", ""),
    ],
)
def test_limited(text: str, left: str) -> None:
    assert replies.limited(text) == left


def test_a_long_sentence_over_and_over() -> None:
    sentence = " ".join(f"word{number}" for number in range(60))
    assert 250 < len(sentence) < 500
    assert replies.limited(sentence * 12 + "end") == sentence * 5 + "end"


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab\n", max_size=120))
def test_it_only_ever_takes_away(text: str) -> None:
    left = replies.limited(text)
    assert len(left) <= len(text) and set(left) <= set(text)


def test_a_long_answer_takes_no_long_time() -> None:
    text = "".join(chr(97 + number * number % 26) for number in range(60_000))
    assert len(replies.limited(text)) <= len(text)
