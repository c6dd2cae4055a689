"""What an attempt can be relieved of without another protocol: requests at a time, and the share of the GPU's memory.

Neither changes what is asked of a model or how an answer is scored, and every sample has a seed of its own, so scores
stay comparable; how far an attempt was eased is recorded beside its stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LEVELS = 2
_FLAGS = {"max_connections": "--max-connections", "gpu_memory_utilization": "--gpu-memory-utilization"}
_SHARE = 0.85  # of the share before


def _number(value: object) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e6
    return float(value) if usable and isinstance(value, int | float) else None


def _derived(defaults: Mapping[str, Any], level: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if (requests := _number(defaults.get("max_connections"))) is not None:
        found["max_connections"] = max(1, int(requests) >> level)
    if (share := _number(defaults.get("gpu_memory_utilization"))) is not None:
        found["gpu_memory_utilization"] = round(share * _SHARE**level, 3)
    return found


def levels(evaluate: object) -> tuple[dict[str, Any], ...]:
    """What each further level sets, from `[evaluate]` of `task.toml`: its list `ease`, else its defaults lowered twice;
    nothing for a task whose script has no such options. Total."""
    if not isinstance(evaluate, Mapping):
        return ()
    given = evaluate.get("ease")
    if isinstance(given, Sequence) and not isinstance(given, str):
        rows = [{name: row[name] for name in _FLAGS if name in row} for row in given if isinstance(row, Mapping)]
        return tuple(row for row in rows if row)
    return tuple(row for level in range(1, LEVELS + 1) if (row := _derived(evaluate, level)))


def arguments(found: Sequence[Mapping[str, Any]], ease: int) -> tuple[str, ...]:
    """The options of the command line for an attempt at this level; none for level 0."""
    if ease <= 0 or not found:
        return ()
    row = found[min(ease, len(found)) - 1]
    return tuple(word for name, flag in _FLAGS.items() if name in row for word in (flag, str(row[name])))
