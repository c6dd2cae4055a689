"""Weights and scores of the leaderboard (E §5.6). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ptb_tui.core.errors import ContentError
from ptb_tui.results.statistics import mean, spread

__all__ = ["TOLERANCE", "Scores", "check_weights", "derive_weights", "spread", "weighted_score"]

Scores = Mapping[str, Mapping[str, float]]  # model → benchmark → score, a fraction
TOLERANCE = 1e-12  # of a weight (E §5.6)


def derive_weights(instruct: Scores, base: Scores, benchmarks: Iterable[str]) -> dict[str, float]:
    """factor_b = (1/g_b) / Σ_c (1/g_c), with g_b the gain of the instruct models over the base models (E §5.6).

    ContentError when a benchmark has no score in some model or no gain: such a benchmark cannot be weighted.
    """
    inverse: dict[str, float] = {}
    for benchmark in benchmarks:
        try:
            gap = mean(row[benchmark] for row in instruct.values()) - mean(row[benchmark] for row in base.values())
        except (KeyError, ZeroDivisionError) as error:
            raise ContentError(f"benchmark {benchmark}: reference scores are missing: {error}") from error
        if not gap > 0:
            raise ContentError(
                f"benchmark {benchmark}: the instruct models are not better than the base models (gap {gap})",
                hint="leave it out of the weights, or measure the reference scores again",
            )
        inverse[benchmark] = 1 / gap
    total = math.fsum(inverse.values())
    return {benchmark: value / total for benchmark, value in inverse.items()}


def check_weights(weights: Mapping[str, float], instruct: Scores, base: Scores) -> list[str]:
    """Where a protocol's weights are not those that follow from its reference scores, in words.

    ContentError as `derive_weights`.
    """
    derived = derive_weights(instruct, base, sorted(weights))
    return [
        f"the weight of {name} is {weights[name]!r}, and the reference scores give {value!r}"
        for name, value in derived.items()
        if abs(weights[name] - value) > TOLERANCE
    ]


def weighted_score(weights: Mapping[str, float], cells: Scores) -> float:
    """Σ_b weight_b × mean over the models of cell(b, model) (E §5.6). KeyError when a weighted cell has no value."""
    return math.fsum(
        weight * mean(row[benchmark] for row in cells.values()) for benchmark, weight in sorted(weights.items())
    )
