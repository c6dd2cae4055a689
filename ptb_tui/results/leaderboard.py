"""Weights and scores of the leaderboard (E §5.6). Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping

from ptb_tui.core.errors import ContentError

Scores = Mapping[str, Mapping[str, float]]  # model → benchmark → score, a fraction


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found)


def derive_weights(instruct: Scores, base: Scores, benchmarks: Iterable[str]) -> dict[str, float]:
    """factor_b = (1/g_b) / Σ_c (1/g_c), with g_b the gain of the instruct models over the base models (E §5.6).

    ContentError when a benchmark has no score in some model or no gain: such a benchmark cannot be weighted.
    """
    inverse: dict[str, float] = {}
    for benchmark in benchmarks:
        try:
            gap = _mean(row[benchmark] for row in instruct.values()) - _mean(row[benchmark] for row in base.values())
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


def weighted_score(weights: Mapping[str, float], cells: Scores) -> float:
    """Σ_b weight_b × mean over the models of cell(b, model) (E §5.6). KeyError when a weighted cell has no value."""
    return math.fsum(
        weight * _mean(row[benchmark] for row in cells.values()) for benchmark, weight in sorted(weights.items())
    )


def spread(values: Iterable[float]) -> tuple[float | None, float | None, int]:
    """Mean, sample standard deviation (n - 1) and n of repeated runs; None where undefined (E §5.7)."""
    found = list(values)
    if not found:
        return None, None, 0
    return _mean(found), statistics.stdev(found) if len(found) > 1 else None, len(found)
