"""Spread and intervals of scores (E §5.7, §8.3 items 22 and 31). Pure, standard library alone, the same every time.

The interval of a group is a hierarchical bootstrap: which runs were made is drawn anew, in each run which seeds were
evaluated, and around each cell the error of its items. With one run only the parts within it can be drawn.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

DRAWS = 1000
LEVEL = 0.95
_Z = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)
_MANY_SEEDS = 6  # up to here all outcomes of a draw are listed, and one of them is taken


def mean(values: Iterable[float]) -> float:
    """The mean; ZeroDivisionError when there are none."""
    found = list(values)
    return math.fsum(found) / len(found)


def spread(values: Iterable[float]) -> tuple[float | None, float | None, int]:
    """Mean, sample standard deviation (n - 1) and n of repeated runs; None where undefined (E §5.7)."""
    found = list(values)
    if not found:
        return None, None, 0
    return mean(found), statistics.stdev(found) if len(found) > 1 else None, len(found)


@dataclass(frozen=True, slots=True)
class Part:
    """One cell's share of a score: the weight it has in it, the value used, and what is known of its error.

    A value that was not measured (a base score) has neither `seeds` nor `stderr`.
    """

    weight: float
    value: float
    seeds: tuple[float, ...] = ()
    stderr: float | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval, and in words what of the score's error it holds."""

    low: float
    high: float
    of: str


@cache
def _resamples(size: int) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """All ways to draw `size` of `size` seeds with replacement, and how often each comes about, summed up."""
    ways = list(itertools.combinations_with_replacement(range(size), size))
    often = [math.factorial(size) // math.prod(math.factorial(n) for n in Counter(way).values()) for way in ways]
    return tuple(ways), tuple(itertools.accumulate(often))


def _seed_draws(seeds: Sequence[float], draws: int, source: random.Random) -> list[float]:
    """Means of seeds drawn with replacement."""
    size = len(seeds)
    if size > _MANY_SEEDS:
        return [mean(source.choices(seeds, k=size)) for _ in range(draws)]
    ways, often = _resamples(size)
    means = [math.fsum(seeds[index] for index in way) / size for way in ways]
    return source.choices(means, cum_weights=often, k=draws)


def _item_error(parts: Sequence[Part]) -> float:
    """The standard error of a run's score that comes from the items of its cells."""
    return math.sqrt(math.fsum((part.weight * part.stderr) ** 2 for part in parts if part.stderr))


def _run_draws(parts: Sequence[Part], draws: int, source: random.Random) -> list[float]:
    """Scores that one run might have had with other seeds and other items."""
    error = _item_error(parts)
    total = math.fsum(part.weight * part.value for part in parts if len(part.seeds) < 2)
    scores = [total + source.gauss(0.0, error) if error else total for _ in range(draws)]
    for part in parts:
        if len(part.seeds) > 1:
            drawn = _seed_draws(part.seeds, draws, source)
            shift = part.value - mean(part.seeds)
            scores = [score + part.weight * (value + shift) for score, value in zip(scores, drawn, strict=True)]
    return scores


def interval(runs: Sequence[Sequence[Part]], *, draws: int = DRAWS) -> Interval | None:
    """The 95 % interval of the mean score of repeated runs, each given by the parts of its score.

    None when nothing is known of any error: one run without seeds and standard errors.
    """
    if not runs:
        return None
    seeds = any(len(part.seeds) > 1 for parts in runs for part in parts)
    items = any(part.stderr for parts in runs for part in parts)
    kinds = [word for word, known in (("runs", len(runs) > 1), ("seeds", seeds), ("items", items)) if known]
    if not kinds:
        return None
    if len(runs) == 1 and not seeds:  # what the draws would come to, without drawing
        total = math.fsum(part.weight * part.value for part in runs[0])
        reach = _Z * _item_error(runs[0])
        return Interval(total - reach, total + reach, _words(kinds, 1))
    source = random.Random(20260801)
    within = [_run_draws(parts, draws, source) for parts in runs]
    means = []
    for draw in range(draws):
        chosen = within if len(within) == 1 else source.choices(within, k=len(within))
        means.append(math.fsum(scores[draw] for scores in chosen) / len(chosen))
    means.sort()
    cut = int(draws * (1 - LEVEL) / 2)
    return Interval(means[cut], means[draws - 1 - cut], _words(kinds, len(runs)))


def _words(kinds: Sequence[str], runs: int) -> str:
    listed = " and ".join((", ".join(kinds[:-1]), kinds[-1])) if len(kinds) > 1 else kinds[0]
    return f"{listed} within the one run only" if runs == 1 else listed


def reweighted(weights: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Other weights that show how much a score depends on them: all equal, and each task left out in turn."""
    names = sorted(name for name, weight in weights.items() if weight)
    found = {"equal weights": dict.fromkeys(names, 1 / len(names))} if names else {}
    for name in names if len(names) > 1 else ():
        left = {other: weights[other] for other in names if other != name}
        total = math.fsum(left.values())
        found[f"without {name}"] = {other: weight / total for other, weight in left.items()}
    return found
