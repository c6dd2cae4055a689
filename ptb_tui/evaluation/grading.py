"""What a grader said and cost: the folder in which an evaluation script keeps its replies, and the words with which it
gives up (`tasks/shared/ptb_grading.py`). Pure but for reading; the folder was written in a sandbox."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ptb_tui.core import files
from ptb_tui.core.causes import cause, causes
from ptb_tui.core.text import sanitize

CALLS = "calls.jsonl"
_BYTES = 64 << 20
_NAMES = 20
_GAVE_UP = re.compile(r"graded (\d{1,9}) of (\d{1,9}), grading incomplete(?: \((\w{1,20})\))?:? ?(.*)")


def explained(line: str) -> str:
    """The line with which a script gives up, in words for people, with what to do; any other line as it is."""
    found = _GAVE_UP.search(line)
    if found is None:
        return line
    done, of, kind, said = found.groups()
    name = f"grader_{kind}"
    row = cause(name if name in causes() else "grading_incomplete")
    return f"{row.words}, graded {done} of {of}; {row.next}" + (f" ({said})" if said else "")


def record(folder: Path) -> dict[str, Any]:
    """What the calls noted in a folder of grades add up to (`add_up`), and how far the grader agreed with itself where
    items were graded twice."""
    found = add_up([files.read_bytes(folder / CALLS, _BYTES) or b""])
    twice = files.read_object(folder / "regraded.json", 1 << 16) or {}
    figures = {name: _number(twice.get(name)) for name in ("items", "first", "again")}
    return found | ({"regraded": figures} if found and None not in figures.values() else {})


def add_up(logs: Iterable[bytes]) -> dict[str, Any]:
    """Of the lines of `calls.jsonl`: calls, failures by kind, the models that were asked for and that answered, tokens,
    and the cost if every answered call has one. Empty without any call. Total."""
    asked, models, failed = Counter[str](), Counter[str](), Counter[str]()
    tokens = {"input": 0, "output": 0}
    cost, costed = 0.0, 0
    for line in (line for log in logs for line in log.splitlines()):
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue  # torn by a kill
        if not isinstance(row, dict):
            continue
        asked[_text(row.get("asked"))] += 1
        if row.get("failed"):
            failed[_text(row["failed"])] += 1
            continue
        models[_text(row.get("model"))] += 1
        for name in tokens:
            tokens[name] += int(_number(row.get(name)) or 0)
        if (price := _number(row.get("cost_usd"))) is not None:
            cost, costed = cost + price, costed + 1
    if not asked:
        return {}
    answered = sum(models.values())
    return {
        "calls": sum(asked.values()),
        "failed": dict(failed.most_common(_NAMES)),
        "asked": [name for name, _ in asked.most_common(_NAMES)],
        "models": dict(models.most_common(_NAMES)),
        "tokens": tokens,
        "cost_usd": round(cost, 6) if answered and costed == answered else None,
    }


def _text(value: object) -> str:
    return sanitize(value, limit=100, newlines=False) if isinstance(value, str) and value else "unknown"


def _number(value: object) -> float | None:
    """A plausible figure."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return None
    return float(value)
