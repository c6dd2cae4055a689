"""Reading `metrics.json` and `time_taken.txt` (H §1.13, E §5.2, §5.5): a number, or why there is none, in words."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from ptb_tui.core.text import sanitize
from ptb_tui.results.regular import read_regular

_LIMIT = 1 << 20
_MOST_SEEDS = 100
_TIME = re.compile(r"([0-9]+):([0-9]{1,2}):([0-9]{1,2})")


class Metrics(NamedTuple):
    """What a metrics file says. Exactly one of `accuracy` and `problem` is set; both are empty when it is absent."""

    accuracy: float | None = None
    stderr: float | None = None
    seeds: tuple[float, ...] = ()  # accuracy of each seed, where the evaluation had several (E §1.7.5)
    problem: str = ""
    error: str = ""  # text of an `error` field: the number beside it was not measured
    raw: dict[str, Any] | None = None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _accuracy_problem(raw: dict[str, Any]) -> str:
    if "accuracy" not in raw:
        present = ", ".join(sorted(raw)[:5]) or "nothing"
        return sanitize(f"metrics.json has no accuracy, only {present}", limit=200, newlines=False)
    value = raw["accuracy"]
    number = _number(value)
    if number is None:
        kinds = {bool: "true or false", str: "a text", type(None): "null", list: "a list", dict: "an object"}
        shown = sanitize(repr(value), limit=40, newlines=False)
        return f"accuracy is {kinds.get(type(value), 'not a number')} ({shown}), not a number"
    if not math.isfinite(number):
        return f"accuracy is {number}, not a finite number"
    if number < 0:
        return f"accuracy is {number}, below 0"
    if number > 1:
        return f"accuracy is {number}, above 1 (a percentage?)"
    return ""


def parse_metrics(data: bytes) -> Metrics:
    """Understand the bytes of a metrics file; total. Scores are fractions from 0 to 1."""
    try:
        raw = from_json(data)
    except ValueError as error:
        if not data.strip():
            return Metrics(problem="metrics.json is empty")
        words = sanitize(str(error), limit=120, newlines=False)
        return Metrics(problem=f"metrics.json is not complete JSON: {words}")
    if not isinstance(raw, dict):
        return Metrics(problem=f"metrics.json holds a {type(raw).__name__}, not an object")
    accuracy = raw.get("accuracy")
    usual = type(accuracy) is float and 0 <= accuracy <= 1
    if not usual and (problem := _accuracy_problem(raw)):
        return Metrics(problem=problem, raw=raw)
    if raw.get("error"):
        words = sanitize(str(raw["error"]), limit=200, newlines=False)
        return Metrics(problem=f"metrics.json reports an error: {words}", error=words, raw=raw)
    stderr = _number(raw.get("stderr"))
    usable = stderr is not None and math.isfinite(stderr) and stderr >= 0
    return Metrics(_number(accuracy), stderr if usable else None, _seeds(raw), raw=raw)


def _seeds(raw: dict[str, Any]) -> tuple[float, ...]:
    """Accuracies of `per_seed`; none of them where one is not understood, because a part would mislead."""
    table = raw.get("per_seed")
    if not isinstance(table, dict) or len(table) > _MOST_SEEDS:
        return ()
    found = []
    for seed in table.values():
        metrics = seed.get("metrics") if isinstance(seed, dict) else None
        value = _number(metrics.get("accuracy")) if isinstance(metrics, dict) else None
        if value is None or not 0 <= value <= 1:
            return ()
        found.append(value)
    return tuple(found)


def _read(path: Path, limit: int) -> tuple[bytes | None, str]:
    data = read_regular(path, limit)
    if data is not None:
        return data, ""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"{path.name} cannot be read: {error.strerror}"
    return None, f"{path.name} is not a readable file of at most {limit} bytes"


def read_metrics(run_dir: Path) -> Metrics:
    """The metrics of a run; links are not followed."""
    data, problem = _read(run_dir / "metrics.json", _LIMIT)
    if data is None:
        return Metrics(problem=problem)
    return parse_metrics(data)


def parse_cli_version(data: bytes) -> str:
    """The version in a `cli_version.txt` (H §2.3); empty when it does not say."""
    for line in data.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "version":
            said = sanitize(value.strip(), limit=60, newlines=False)
            return "" if said.startswith("<") else said
    return ""


def read_cli_version(run_dir: Path) -> str:
    """The version of the CLI that a run's agent used; empty when nobody noted it."""
    return parse_cli_version(read_regular(run_dir / "cli_version.txt", 1 << 16) or b"")


def parse_time(text: str) -> float | None:
    """Seconds of `H:MM:SS` with minutes and seconds below 60, else None (E §5.5)."""
    match = _TIME.fullmatch(text.strip())
    if match is None or len(match[1]) > 6:
        return None
    hours, minutes, seconds = map(int, match.groups())
    return float(hours * 3600 + minutes * 60 + seconds) if minutes < 60 and seconds < 60 else None


def read_time(run_dir: Path) -> tuple[float | None, str]:
    """Seconds of the agent from `time_taken.txt`, or why there are none ("" when the file is absent)."""
    data, problem = _read(run_dir / "time_taken.txt", 4096)
    if data is None:
        return None, problem
    text = data.decode("utf-8", "replace")
    seconds = parse_time(text)
    if seconds is None:
        return None, f"time_taken.txt is not H:MM:SS: {sanitize(text.strip(), limit=40, newlines=False)!r}"
    return seconds, ""
