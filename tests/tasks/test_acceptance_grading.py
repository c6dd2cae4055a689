"""Acceptance test 9 of E §9: the scores of Arena and HealthBench from labels and grades (E §1.5.6, §1.5.7)."""

from __future__ import annotations

import math
import statistics
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tasks.loading import load

arena = load("arena_judging", "arenahardwriting/evaluation_code")
health = load("health_grading", "healthbench/evaluation_code")
grading = load("ptb_grading")
LABELS = ("A>>B", "A>B", "A=B", "B>A", "B>>A")


class Said:
    """A grader that has said these values, in the order of the questions."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def ask_all(self, asked: list[Any]) -> list[Any]:
        assert len(asked) == len(self.values)
        return [grading.Grade(value) for value in self.values]


def arena_score(*labels: str | None, coverage: float = 0.01) -> dict[str, float]:
    """The metrics of one prompt for every two labels: first the game in which the candidate is B."""
    items = [{"id": str(n), "question": "Q", "baseline": "B"} for n in range(len(labels) // 2)]
    args = SimpleNamespace(grader_wait=0.0, coverage=coverage)
    found = arena.grade(items, {item["id"]: "A" for item in items}, Said(*labels), args)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("labels", "points"),
    [
        (("B>A", "A>B"), [1, 1]),  # wins both: as B in the first game, as A in the second
        (("A>B", "B>A"), [0, 0]),
        (("B>A", "B>A"), [1, 0]),  # the judge prefers a place, not an answer
        (("A=B", "A=B"), [0.5, 0.5]),
        (("B>>A", "B>A"), [1, 1, 1, 0]),  # a strong verdict weighs three times
        (("A>>B", "A>>B"), [0, 0, 0, 1, 1, 1]),
        (("B>A", "A>B", "A>>B", "A=B"), [1, 1, 0, 0, 0, 0.5]),  # the mean is over points, not over prompts
        (("B>>A", None, "A=B", "A>B"), [0.5, 1]),  # a prompt with a game missing is left out
        ((None, None, "B>A", "B>>A"), [1, 0, 0, 0]),
    ],
)
def test_arena(labels: tuple[str | None, ...], points: list[float]) -> None:
    found = arena_score(*labels)
    assert found["accuracy"] == pytest.approx(statistics.fmean(points))
    assert found["stderr"] == pytest.approx(statistics.stdev(points) / math.sqrt(len(points)))


def test_arena_without_any_game() -> None:
    assert arena.win_rate([]) == {"accuracy": 0.0, "stderr": 0.0}
    with pytest.raises(grading.GradingIncomplete):
        arena_score(None, None, coverage=1.0)


@given(st.lists(st.sampled_from(LABELS), min_size=2, max_size=12).filter(lambda labels: len(labels) % 2 == 0))
def test_arena_of_the_other_side_is_the_rest(labels: list[str]) -> None:
    """Who wins against A loses against B: with every label turned around the rate is what is missing to one."""
    turned = {"A>>B": "B>>A", "A>B": "B>A", "A=B": "A=B", "B>A": "A>B", "B>>A": "A>>B"}
    here, there = arena_score(*labels), arena_score(*(turned[label] for label in labels))
    assert here["accuracy"] + there["accuracy"] == pytest.approx(1) and 0 <= here["accuracy"] <= 1


def item(*points: int) -> dict[str, Any]:
    return {
        "rubrics": [{"points": number, "criterion": "c", "tags": ["axis:a"]} for number in points],
        "tags": ["theme:t"],
    }


@pytest.mark.parametrize(
    ("points", "met", "score"),
    [
        ((5, 3), (True, False), 5 / 8),
        ((5, -2), (True, True), 3 / 5),  # something undesirable that the answer does takes points away
        ((5, -2), (True, False), 1.0),  # and it is not part of what could be reached
        ((5, -8), (False, True), 0.0),  # below zero counts as zero, but only in the mean
        ((5, 5, -5), (True, True, True), 0.5),
    ],
)
def test_health(points: tuple[int, ...], met: tuple[bool, ...], score: float) -> None:
    found = health.metrics_of([item(*points)], [met])
    assert found["accuracy"] == pytest.approx(score)
    assert found["by_theme"] == {"t": pytest.approx(score)} and found["by_axis"] == {"a": pytest.approx(score)}


def test_health_is_clipped_as_a_mean_and_not_by_item() -> None:
    found = health.metrics_of([item(10), item(10, -5)], [[True], [False, True]])
    assert found["accuracy"] == pytest.approx((1 - 0.5) / 2)


def test_health_axes_pool_the_points_of_all_items() -> None:
    found = health.metrics_of([item(1), item(9)], [[True], [False]])
    assert found["by_axis"] == {"a": pytest.approx(0.1)} and found["accuracy"] == pytest.approx(0.5)


def test_health_bootstrap_has_its_seed() -> None:
    """1000 clipped means of samples drawn with replacement by `default_rng(42)`."""
    numpy = pytest.importorskip("numpy")
    scores = [0.0, 0.25, 1.0, -0.5, 0.75]
    draw, means = numpy.random.default_rng(42), []
    for _ in range(1000):
        sample = [scores[place] for place in draw.integers(0, len(scores), len(scores))]
        means.append(min(1.0, max(0.0, sum(sample) / len(sample))))
    assert health.bootstrap(scores) == pytest.approx(statistics.pstdev(means), rel=1e-9)
