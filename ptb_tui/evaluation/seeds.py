"""Seeds of the final evaluation and the mean over them (E §1.7.2, §1.7.4, §1.7.5)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.core import files
from ptb_tui.core.errors import StepError

ALL = (72332, 87681, 38992, 92201, 13818)
_COUNT = {"aime2025": 5, "gpqamain": 3, "gsm8k": 3, "humaneval": 3, "arenahardwriting": 1, "healthbench": 1}
_RESERVED = frozenset(("num_seeds", "num_seeds_succeeded", "per_seed"))
_GREEDY_BELOW = 1e-5  # vLLM's sampling epsilon


def default_seeds(task: str) -> tuple[int, ...]:
    """The seeds of a task that names none itself."""
    return ALL[: _COUNT.get(task, 1)]


def sample_seed(run_seed: int, sample_id: object, epoch: int = 1, call: int = 0) -> int:
    """The seed, 0 to 2**31 - 1, of generate call number `call` for one sample in one epoch (E §1.7.2)."""
    name = f"{run_seed}:{sample_id}:{epoch}:{call}".encode("ascii", "backslashreplace")
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "little") & 0x7FFFFFFF


def default_temperature(model_dir: Path) -> float | None:
    """The temperature a server uses for this model when nobody asks for one; 1.0 unless the model says otherwise.

    None when the model's file cannot be understood: then all seeds are needed.
    """
    path = model_dir / "generation_config.json"
    if not path.is_file():
        return 1.0
    config = files.read_object(path, 1 << 20)
    value = (config or {}).get("temperature", 1.0)
    if config is None or isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def needed(seeds: Sequence[int], *, seed_only_samples: bool, temperature: float | None) -> tuple[int, ...]:
    """The seeds worth running: a greedy model gives the same answers under each, so the first is enough."""
    greedy = temperature is not None and temperature < _GREEDY_BELOW
    return tuple(seeds[:1]) if greedy and seed_only_samples else tuple(seeds)


@dataclass(frozen=True, slots=True)
class SeedMetrics:
    """What one seed measured, and at which stage of the ladder."""

    stage: int
    metrics: Mapping[str, Any]


def _number(value: object) -> bool:
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
