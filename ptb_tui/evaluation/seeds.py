"""Seeds of the final evaluation and the mean over them (E §1.7.2, §1.7.4, §1.7.5)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from ptb_tui.content.protocols import Protocol
from ptb_tui.content.tasks import Task
from ptb_tui.core import files
from ptb_tui.core.errors import StepError

ALL = (72332, 87681, 38992, 92201, 13818)
_COUNT = {"aime2025": 5, "gpqamain": 3, "gsm8k": 3, "humaneval": 3, "arenahardwriting": 1, "healthbench": 1}
_RESERVED = frozenset(("num_seeds", "num_seeds_succeeded", "per_seed"))
_GENERATION = "generation_config.json"
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens")
_PLAUSIBLE = 1e9
_GREEDY_BELOW = 1e-5  # vLLM's sampling epsilon


def default_seeds(task: str) -> tuple[int, ...]:
    """The seeds of a task that names none itself."""
    return ALL[: _COUNT.get(task, 1)]


def seeds_of(protocol: Protocol, task: Task) -> tuple[int, ...]:
    """The seeds of a whole evaluation: those of the protocol, else of the task."""
    return protocol.seeds.get(task.name) or task.file.final.seeds or default_seeds(task.name)


def sample_seed(run_seed: int, sample_id: object, epoch: int = 1, call: int = 0) -> int:
    """The seed, 0 to 2**31 - 1, of generate call number `call` for one sample in one epoch (E §1.7.2)."""
    name = f"{run_seed}:{sample_id}:{epoch}:{call}".encode("ascii", "backslashreplace")
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "little") & 0x7FFFFFFF


def default_temperature(model_dir: Path) -> float | None:
    """The temperature a server uses for this model when nobody asks for one; 1.0 unless the model says otherwise.

    None when the model's file cannot be understood: then all seeds are needed.
    """
    path = model_dir / _GENERATION
    if not path.is_file():
        return 1.0
    config = files.read_object(path, 1 << 20)
    value = (config or {}).get("temperature", 1.0)
    return float(value) if config is not None and _number(value) and abs(value) < _PLAUSIBLE else None


def sampling(model_dir: Path) -> dict[str, float]:
    """What a model asks of a server that samples from it, for the record (E §8.3 no. 18): the numbers of its
    `generation_config.json` that vLLM takes as defaults."""
    config = files.read_object(model_dir / _GENERATION, 1 << 20) or {}
    found = {name: config.get(name) for name in _SAMPLING}
    return {name: value for name, value in found.items() if _number(value) and abs(value) < _PLAUSIBLE}


def needed(seeds: Sequence[int], *, seed_only_samples: bool, temperature: float | None) -> tuple[int, ...]:
    """The seeds worth running: a greedy model gives the same answers under each, so the first is enough."""
    greedy = temperature is not None and temperature < _GREEDY_BELOW
    return tuple(seeds[:1]) if greedy and seed_only_samples else tuple(seeds)


@dataclass(frozen=True, slots=True)
class SeedMetrics:
    """What one seed measured, and at which stage of the ladder."""

    stage: int
    metrics: Mapping[str, Any]


def _number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def problem_of(metrics: object) -> str:
    """Why the metrics of one attempt cannot be used, in words, or ""."""
    if not isinstance(metrics, dict):
        return "the metrics file holds no JSON object"
    if reserved := sorted(_RESERVED & metrics.keys()):
        return f"the metrics use the reserved name {reserved[0]}"
    accuracy: Any = metrics.get("accuracy")
    if not _number(accuracy):
        return "the metrics have no number `accuracy`"
    if not 0 <= accuracy <= 1:
        shown = f"{accuracy:.4g}" if abs(accuracy) < 1e9 else "a number"
        return f"accuracy is {shown}, not within 0 and 1"
    bad = sorted(name for name, value in metrics.items() if _number(value) and not abs(value) < 1e300)
    return f"{bad[0]} is not a finite number" if bad else ""


def aggregate(per_seed: Mapping[int, SeedMetrics], num_seeds: int) -> dict[str, Any]:
    """The content of `metrics.json`: means over the seeds that succeeded (E §1.7.5).

    `num_seeds` counts the seeds asked for. StepError when the seeds do not measure the same things.
    """
    if not per_seed:
        raise StepError("no seed was measured", cause="eval_failed")
    every = [dict(found.metrics) for found in per_seed.values()]
    names = list(every[0])
    for seed, metrics in zip(per_seed, every, strict=True):
        if set(metrics) != set(names):
            odd = ", ".join(sorted(set(metrics) ^ set(names)))
            raise StepError(f"seed {seed} measured other things than the first: {odd}")
        if problem := problem_of(metrics):
            raise StepError(f"seed {seed}: {problem}", cause="eval_failed")
    whole: dict[str, Any] = {}
    for name in names:
        kinds = {_number(metrics[name]) for metrics in every}
        if len(kinds) > 1:
            raise StepError(f"{name} is a number for some seeds and something else for others")
        if kinds == {True}:
            whole[name] = math.fsum(metrics[name] for metrics in every) / len(every)
    whole["num_seeds"] = num_seeds
    whole["num_seeds_succeeded"] = len(per_seed)
    whole["per_seed"] = {
        str(seed): {"max_tokens_stage": found.stage, "metrics": dict(found.metrics)} for seed, found in per_seed.items()
    }
    return whole


# Two-sided 95 % quantiles of Student's t for 1, 2, 3 … degrees of freedom; beyond, the normal distribution's.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12)
_Z = 1.96


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean over `n` seeds; the sample's standard deviation and a 95 % interval of the mean, None for one seed."""

    n: int
    mean: float
    std: float | None = None
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, float | int | None]:
        """Plain form for answers."""
        return {"n": self.n, "mean": self.mean, "std": self.std, "low": self.low, "high": self.high}


def spread(values: Sequence[float]) -> Spread:
    """How a number differs between seeds. It tells nothing about the choice of items: `stderr` of the metrics does."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Spread(n, mean)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = (_T[n - 2] if n - 2 < len(_T) else _Z) * std / math.sqrt(n)
    return Spread(n, mean, std, mean - half, mean + half)


def spread_of(metrics: object, name: str = "accuracy") -> Spread | None:
    """The spread of one number over the seeds of a `metrics.json`; None when it says nothing of seeds. Total."""
    per_seed = metrics.get("per_seed") if isinstance(metrics, Mapping) else None
    values = []
    for entry in per_seed.values() if isinstance(per_seed, Mapping) else ():
        found = entry.get("metrics") if isinstance(entry, Mapping) else None
        value: Any = found.get(name) if isinstance(found, Mapping) else None
        if not _number(value) or not abs(value) < 1e9:
            return None
        values.append(float(value))
    return spread(values) if values else None
