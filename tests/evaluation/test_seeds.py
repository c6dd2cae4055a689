"""Seeds and the mean over them: vectors of E §1.7.2, rules of E §1.7.4 and §1.7.5."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.core.errors import StepError
from ptb_tui.evaluation import seeds
from ptb_tui.evaluation.seeds import SeedMetrics


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((0, "x"), 2001290515), ((72332, 1), 1353171064), ((87681, "x", 1, 1), 1922321607)],
)
def test_sample_seed_vectors(arguments: tuple[Any, ...], expected: int) -> None:
    assert seeds.sample_seed(*arguments) == expected


@given(st.integers(), st.text(), st.integers(0, 9), st.integers(0, 9))
def test_sample_seed_is_total_and_in_range(run: int, sample: str, epoch: int, call: int) -> None:
    assert 0 <= seeds.sample_seed(run, sample, epoch, call) < 2**31


def test_default_counts() -> None:
    assert seeds.default_seeds("aime2025") == seeds.ALL
    assert seeds.default_seeds("gpqamain") == seeds.ALL[:3]
    assert seeds.default_seeds("healthbench") == seeds.ALL[:1]
    assert seeds.default_seeds("a new one") == (72332,)


@pytest.mark.parametrize(
    ("content", "temperature"),
    [
        (None, 1.0),
        ("{}", 1.0),
        ('{"temperature": 0}', 0.0),
        ('{"temperature": 0.7}', 0.7),
        ('{"temperature": "0"}', None),
        ('{"temperature": true}', None),
        ('{"temperature": NaN}', None),
        ('{"temperature": 1%s}' % ("0" * 400), None),
        ("[]", None),
        ("{", None),
    ],
)
def test_default_temperature(tmp_path: Path, content: str | None, temperature: float | None) -> None:
    if content is not None:
        (tmp_path / "generation_config.json").write_text(content)
    assert seeds.default_temperature(tmp_path) == temperature
    assert seeds.sampling(tmp_path) == (
        {"temperature": temperature} if content and "temperature" in content and temperature is not None else {}
    )


def test_greedy_needs_one_seed_unless_the_seed_does_more_than_sample() -> None:
    three = seeds.ALL[:3]
    assert seeds.needed(three, seed_only_samples=True, temperature=0.0) == three[:1]
    assert seeds.needed(three, seed_only_samples=False, temperature=0.0) == three
    assert seeds.needed(three, seed_only_samples=True, temperature=1.0) == three
    assert seeds.needed(three, seed_only_samples=True, temperature=None) == three


def test_seeds_of_the_published_versions() -> None:
    counts = {"aime2025": 5, "gpqamain": 3, "gsm8k": 3, "humaneval": 3, "arenahardwriting": 1, "healthbench": 1}
    content = Content.of()
    for name in ("1.0", "1.1", "1.2"):
        protocol = load_protocol(content, name)
        wanted = {task: counts[task] if name == "1.2" else 1 for task in protocol.tasks}  # E §0.2, §1.7.4
        assert {task: len(found) for task, found in protocol.seeds.items()} == wanted
        assert all(found == seeds.ALL[: len(found)] for found in protocol.seeds.values())


def test_a_single_seed_still_has_all_keys() -> None:
    whole = seeds.aggregate({7: SeedMetrics(0, {"accuracy": 0.5, "stderr": 0.1})}, 1)
    assert whole == {
        "accuracy": 0.5,
        "stderr": 0.1,
        "num_seeds": 1,
        "num_seeds_succeeded": 1,
        "per_seed": {"7": {"max_tokens_stage": 0, "metrics": {"accuracy": 0.5, "stderr": 0.1}}},
    }


def test_mean_of_numbers_only() -> None:
    whole = seeds.aggregate(
        {
            1: SeedMetrics(0, {"accuracy": 0, "note": "a", "flag": True}),
            2: SeedMetrics(1, {"accuracy": 1, "note": "b", "flag": True}),
        },
        3,
    )
    assert whole["accuracy"] == 0.5 and "note" not in whole and "flag" not in whole
    assert whole["num_seeds"] == 3 and whole["num_seeds_succeeded"] == 2
    assert whole["per_seed"]["2"] == {"max_tokens_stage": 1, "metrics": {"accuracy": 1, "note": "b", "flag": True}}


@pytest.mark.parametrize(
    "second", [{"accuracy": 1.0, "more": 1}, {"accuracy": 0.5, "x": "text"}, {"other": 1}, {"accuracy": 2.0, "x": 1}]
)
def test_seeds_that_do_not_fit_together_are_an_error(second: dict[str, Any]) -> None:
    with pytest.raises(StepError):
        seeds.aggregate({1: SeedMetrics(0, {"accuracy": 0.5, "x": 1}), 2: SeedMetrics(0, second)}, 2)


@pytest.mark.parametrize(
    "metrics",
    [
        None,
        [],
        {},
        {"accuracy": True},
        {"accuracy": "0.5"},
        {"accuracy": math.nan},
        {"accuracy": -0.1},
        {"accuracy": 50},
        {"accuracy": 10**400},
        {"accuracy": 0.5, "stderr": math.inf},
        {"accuracy": 0.5, "x": 10**400},
        {"accuracy": 0.5, "num_seeds": 1},
    ],
)
def test_unusable_metrics_have_words(metrics: object) -> None:
    assert seeds.problem_of(metrics)


def test_usable_metrics() -> None:
    assert seeds.problem_of({"accuracy": 1}) == ""
    assert seeds.problem_of({"accuracy": 0.25, "stderr": 0.01, "note": "x"}) == ""


_PLAIN = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.integers()


@settings(max_examples=200)
@given(_PLAIN | st.dictionaries(st.sampled_from(["accuracy", "stderr", "x", "per_seed"]), _PLAIN | st.lists(_PLAIN)))
def test_problem_of_is_total(value: object) -> None:
    words = seeds.problem_of(value)
    if not words:
        assert isinstance(value, dict)
        json.dumps(seeds.aggregate({1: SeedMetrics(0, value)}, 1), allow_nan=False)


def test_spread_over_seeds() -> None:
    one = seeds.spread([0.5])
    assert (one.n, one.mean, one.std, one.low, one.high) == (1, 0.5, None, None, None)
    found = seeds.spread([0.4, 0.5, 0.6])
    assert found.mean == pytest.approx(0.5) and found.std == pytest.approx(0.1)
    half = 4.303 * 0.1 / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half))
    same = seeds.spread([0.7] * 5)
    assert same.std == pytest.approx(0) and same.low == same.high == pytest.approx(0.7)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_the_interval_holds_the_mean(values: list[float]) -> None:
    found = seeds.spread(values)
    assert found.low is not None and found.high is not None and found.low <= found.mean <= found.high


def test_spread_of_a_metrics_file() -> None:
    measured = {seed: SeedMetrics(0, {"accuracy": value}) for seed, value in ((1, 0.25), (2, 0.75))}
    found = seeds.spread_of(seeds.aggregate(measured, 2))
    assert found is not None and (found.n, found.mean) == (2, 0.5)
    assert seeds.spread_of({"accuracy": 0.5}) is None  # of the original's older form


@given(_PLAIN | st.dictionaries(st.just("per_seed"), _PLAIN | st.dictionaries(st.text(max_size=2), _PLAIN)))
def test_spread_of_is_total(value: object) -> None:
    assert seeds.spread_of(value) is None
