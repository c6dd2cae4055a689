"""The list of runs as plain values: what a person asks most often loads nothing that it does not need."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.content.lookup import Content
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import Settings
from ptb_tui.results.overlay import Overlay
from ptb_tui.results.records import RunRecord
from ptb_tui.results.store import RunStore, Scan, row_values


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs; the fields mean what those of `core.rows.RunsQuery` mean."""

    active: bool = False
    failed: bool = False
    sweep: str = ""
    match: str = ""
    ids: frozenset[int] = frozenset()


def stores(root: Path, settings: Settings, content: Content) -> list[RunStore]:
    """Readers of a results root and of the further roots that are only read."""
    agents, overlay = content.names("agents"), Overlay(Root(root))
    paths: dict[str, Path] = {}
    for path in (root, *settings.extra_results):
        paths.setdefault(os.path.realpath(path), path)
    return [RunStore(Root(path), agents, overlay=overlay) for path in paths.values()]


def scan(readers: Sequence[RunStore]) -> Scan:
    """All runs; a method of an earlier root wins (E §5.2)."""
    runs: list[RunRecord] = []
    problems: list[str] = []
    taken: set[str] = set()
    for reader in readers:
        found = reader.scan()
        fresh = {record.method for record in found.runs} - {""}
        for method in sorted(fresh & taken):
            problems.append(f"{method}: also in another results root, which is left out")
        runs += [record for record in found.runs if record.method not in taken]
        taken |= fresh
        problems += found.problems
    return Scan(tuple(runs), tuple(problems))


def _fits(row: dict[str, Any], wanted: Wanted) -> bool:
    text = f"{row['id']} {row['method']} {row['path']} {row['state']} {row['worth']}"
    failed = row["state"] in ("failed", "lost") or row["worth"] in ("failed", "unjudged", "quarantined")
    swept = row["sweep"].startswith(wanted.sweep) or row["sweep_name"] == wanted.sweep
    return (not wanted.failed or failed) and (not wanted.match or wanted.match in text) and (not wanted.sweep or swept)


def rows(found: Scan, wanted: Wanted) -> Iterable[dict[str, Any]]:
    """The fields of `core.rows.RunRow` of every run that is wanted, newest first."""
    for record in found.runs:
        if (not wanted.ids or record.id in wanted.ids) and (not wanted.active or record.active):
            row = row_values(record)
            if _fits(row, wanted):
                yield row
