"""The table of causes, `causes.toml`: whose matter an end is and whether its result counts. Standard library alone."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cause:
    """One row. `counts` is yes, no or protocol; `retry` is auto(n), ask or never."""

    name: str
    owner: str
    counts: str
    retry: str
    words: str
    next: str


@cache
def causes() -> dict[str, Cause]:
    """All causes by name."""
    table = tomllib.loads(Path(__file__).with_name("causes.toml").read_text("utf-8"))
    return {name: Cause(name=name, **row) for name, row in table.items()}


def cause(name: str) -> Cause:
    """The row of a cause; an unknown name (from a newer version) gets the row of `unknown` under its own name."""
    table = causes()
    if name in table:
        return table[name]
    fallback = table["unknown"]
    return Cause(name, fallback.owner, fallback.counts, fallback.retry, fallback.words, fallback.next)
