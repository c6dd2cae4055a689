import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.errors import ContentError
from ptb_tui.results.leaderboard import derive_weights, spread, weighted_score

golden: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "results" / "golden.json").read_text())


@pytest.mark.parametrize("version", sorted(golden["weights"]))
def test_weights_follow_from_the_reference_scores(version: str) -> None:
    scores, pairs = golden["zeroshot"][version], golden["instruct_of"]
    instruct = {name: scores[name] for name in pairs.values()}
    base = {name: scores[name] for name in pairs}
    derived = derive_weights(instruct, base, golden["weights"][version])
    assert derived == pytest.approx(golden["weights"][version], abs=1e-12)
    assert sum(derived.values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("method", golden["methods"], ids=lambda method: f"{method['version']} {method['name']}")
def test_published_scores(method: dict[str, Any]) -> None:
    assert weighted_score(golden["weights"][method["weights"]], method["cells"]) == pytest.approx(
        method["score"], abs=1e-9
    )


def test_reference_rows() -> None:
    scores, pairs = golden["zeroshot"]["v1.2"], golden["instruct_of"]
    for row, models in (("official_instruct", pairs.values()), ("base_zero_shot", pairs)):
        cells = {name: scores[name] for name in models}
        assert weighted_score(golden["weights"]["v1.2"], cells) == pytest.approx(
            golden["references"][row]["score"], abs=1e-9
        )


@pytest.mark.parametrize("gain", [0.0, -0.1, float("nan")])
def test_a_benchmark_without_gain_cannot_be_weighted(gain: float) -> None:
    with pytest.raises(ContentError, match="not better than the base models"):
        derive_weights({"instruct": {"b": 0.5 + gain}}, {"base": {"b": 0.5}}, ["b"])


def test_missing_reference_score_is_named() -> None:
    with pytest.raises(ContentError, match="gsm8k"):
        derive_weights({"instruct": {}}, {"base": {"gsm8k": 0.1}}, ["gsm8k"])


def test_a_weighted_cell_without_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        weighted_score({"a": 1.0}, {"model": {"b": 0.1}})


def test_spread_of_repeats() -> None:
    mean, deviation, count = spread([0.2, 0.4])
    assert [mean, deviation, count] == pytest.approx([0.3, 0.1414213562, 2])
    assert spread([0.2]) == (0.2, None, 1)
    assert spread([]) == (None, None, 0)


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 0.9), min_size=1))
def test_weights_sum_to_one_and_smaller_gains_weigh_more(gains: dict[str, float]) -> None:
    weights = derive_weights({"i": gains}, {"b": dict.fromkeys(gains, 0.0)}, gains)
    assert sum(weights.values()) == pytest.approx(1)
    for first in gains:
        assert all(weights[first] >= weights[second] for second in gains if gains[first] < gains[second])
