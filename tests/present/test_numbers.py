import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.present import numbers


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (42.9, "42s"), (60, "1m 00s"), (348, "5m 48s"), (3720, "1h 02m"), (36_000, "10h 00m"), (-5, "0s")],
)
def test_duration(seconds: float, words: str) -> None:
    assert numbers.duration(seconds) == words


def test_what_is_unknown_is_not_zero() -> None:
    for value in (None, math.nan, math.inf, -math.inf):
        assert numbers.duration(value) == numbers.score(value) == numbers.UNKNOWN
        assert numbers.money(value) == "unknown" and numbers.left(value) == ""
    assert numbers.size(None) == numbers.UNKNOWN


def test_time_left_says_when_it_is_over() -> None:
    assert numbers.left(318) == "5m 18s left"
    assert numbers.left(-12) == "over by 12s"


def test_scores_and_money() -> None:
    assert numbers.score(0.825) == "82.5 %" and numbers.score(0) == "0.0 %"
    assert numbers.score_error(0.825, 0.013) == "82.5 ± 1.3 %"
    assert numbers.score_error(0.825, None) == "82.5 %" and numbers.score_error(None, 0.1) == numbers.UNKNOWN
    assert numbers.money(1234.5) == "$1,234.50" and numbers.money(0.001) == "<$0.01" and numbers.money(0) == "$0.00"


def test_counts_and_gpu_hours() -> None:
    assert numbers.count(1, "run") == "1 run" and numbers.count(0, "run") == "0 runs"
    assert numbers.gpu_hours(1) == "1 GPU hour" and numbers.gpu_hours(0.25) == "0.25 GPU hours"


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_999, "1.0 MB"),
        (3_400_000_000, "3.4 GB"),
        (2 * 10**15, "2.0 PB"),
    ],
)
def test_size(count: int, words: str) -> None:
    assert numbers.size(count) == words


@given(st.floats())
def test_every_float_has_words(value: float) -> None:
    for show in (numbers.duration, numbers.left, numbers.score, numbers.money):
        assert isinstance(show(value), str)


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_durations_keep_their_order(one: int, other: int) -> None:
    def read(text: str) -> int:
        units = {"h": 3600, "m": 60, "s": 1}
        return sum(int(part[:-1]) * units[part[-1]] for part in text.split())

    low, high = sorted((one, other))
    assert read(numbers.duration(low)) <= read(numbers.duration(high)) <= high
