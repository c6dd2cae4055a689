"""Exact numeric comparison: AIME's table and what is around it (E §1.7.1). GSM8K's is tested with the demo."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tasks.loading import load

numbers = load("ptb_numbers")


@pytest.mark.parametrize(
    ("completion", "target", "right"),
    [
        ("ANSWER: 711", "11", False),
        ("ANSWER: 149", "49", False),
        ("so the sum is 3248", "248", False),
        ("ANSWER: 049", "49", True),
        ("The answer is 49.", "49", True),
        ("ANSWER: 1,049", "1049", True),
        ("ANSWER: 49.0", "49", True),
        ("ANSWER: 49 and then 50", "49", False),
        ("ANSWER: 49", "049", True),
        ("**49**", "49", True),
        ("ANSWER: ٤٩", "49", True),
        ("ANSWER: 7²", "49", True),
        ("-49", "49", False),
        (".10.00.50", "50", False),
        ("½½", "50", False),
        ("10⁹⁹⁹", "50", False),
        ("3*5²*13.", "50", False),
        ("", "50", False),
        ("nothing", "50", False),
    ],
)
def test_last_number_exact(completion: str, target: str, right: bool) -> None:
    assert numbers.last_number_exact(completion, target)[1] is right


@pytest.mark.parametrize("target", ["", "-1", "1.5", "one", "²", "1 2"])
def test_a_target_that_is_no_whole_number_is_an_error(target: str) -> None:
    with pytest.raises(ValueError):
        numbers.last_number_exact("1", target)


@given(st.text(max_size=200))
def test_no_completion_raises(completion: str) -> None:
    numbers.last_number_exact(numbers.unboxed(completion), "50")


@given(st.text(alphabet="0123456789.½⅓⁰²⁹-+ ", max_size=30))
def test_no_number_like_completion_raises(completion: str) -> None:
    numbers.last_number_exact(completion, "50")
    numbers.signed_last_number_exact(completion, "50")


@given(st.integers(0, 999))
def test_the_number_itself_is_right_and_its_neighbour_wrong(value: int) -> None:
    assert numbers.last_number_exact(f"ANSWER: {value}", str(value))[1]
    assert not numbers.last_number_exact(f"ANSWER: {value + 1}", str(value))[1]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (r"so \boxed{11}.", "so 11."),
        (r"\boxed{\frac{1}{2}} then \boxed{3}", r"\frac{1}{2} then 3"),
        (r"\boxed{never closed", r"\boxed{never closed"),
        (r"\boxed{a} \boxed{b", r"a \boxed{b"),
        ("plain", "plain"),
    ],
)
def test_unboxed(text: str, plain: str) -> None:
    assert numbers.unboxed(text) == plain
