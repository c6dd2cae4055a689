import math
import statistics as known

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.results.statistics import Part, interval, reweighted, spread

SHARES = st.floats(0, 1)


@given(st.lists(SHARES, min_size=1, max_size=3))
def test_spread_is_the_sample_deviation(values: list[float]) -> None:
    mean, deviation, count = spread(values)
    assert mean == pytest.approx(known.fmean(values)) and count == len(values)
    assert deviation == (pytest.approx(known.stdev(values)) if len(values) > 1 else None)


def test_one_run_has_the_error_of_its_items_alone() -> None:
    parts = [Part(0.25, 0.5, stderr=0.02), Part(0.75, 0.2, stderr=0.04)]
    found = interval([parts])
    error = math.hypot(0.25 * 0.02, 0.75 * 0.04)
    assert found is not None and found.of == "items within the one run only"
    assert [found.low, found.high] == pytest.approx([0.275 - 1.959964 * error, 0.275 + 1.959964 * error])


def test_nothing_known_gives_no_interval() -> None:
    assert interval([]) is None
    assert interval([[Part(1.0, 0.5)]]) is None
    assert interval([[Part(1.0, 0.5, seeds=(0.5,))]]) is None


def test_seeds_of_one_run() -> None:
    """The bootstrap over n seeds has the deviation of the seeds (1/n) over the root of n."""
    seeds = (0.4, 0.5, 0.6)
    found = interval([[Part(1.0, 0.5, seeds)]], draws=20_000)
    assert found is not None and found.of == "seeds within the one run only"
    assert 0.4 <= found.low < 0.5 < found.high <= 0.6
    many = interval([[Part(1.0, 0.5, tuple(0.4 + 0.01 * n for n in range(21)))]], draws=5000)
    assert many is not None
    expected = 1.96 * known.pstdev(0.01 * n for n in range(21)) / math.sqrt(21)
    assert (many.high - many.low) / 2 == pytest.approx(expected, rel=0.1)


def test_runs_are_drawn_too() -> None:
    found = interval([[Part(1.0, value)] for value in (0.2, 0.3, 0.4)], draws=5000)
    assert found is not None and found.of == "runs"
    assert [found.low, found.high] == pytest.approx([0.2, 0.4])
    all_of_it = interval([[Part(1.0, value, (value - 0.1, value + 0.1), 0.05)] for value in (0.2, 0.4)])
    assert all_of_it is not None and all_of_it.of == "runs, seeds and items"
    assert all_of_it.low < 0.2 and all_of_it.high > 0.4


def test_a_base_score_has_no_error_and_the_interval_is_the_same_every_time() -> None:
    parts = [Part(0.5, 0.1), Part(0.5, 0.3, (0.2, 0.4), 0.01)]
    assert interval([parts, parts]) == interval([parts, parts])


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 1), min_size=1))
def test_other_weights_sum_to_one(weights: dict[str, float]) -> None:
    found = reweighted(weights)
    assert all(sum(other.values()) == pytest.approx(1) for other in found.values())
    assert len(found) == 1 + (len(weights) if len(weights) > 1 else 0)
    assert reweighted({}) == {}
