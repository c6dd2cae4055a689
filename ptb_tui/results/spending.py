"""Money and tokens of runs, as their traces say; unknown stays unknown (E §8.4 item 35).

Of our runs the index of the trace is summed up. Of runs of others the end of the trace is read: a CLI that says at the
end what a session took is believed, and nothing is guessed for the others. What was read of a trace is kept in
`_ptb/cache/spending.json` as long as the file does not change; it may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable
from typing import Any

from pydantic_core import from_json, to_json

from ptb_tui.core import files
from ptb_tui.core.layout import Root
from ptb_tui.core.trace import TraceEvent, TraceKind, Usage
from ptb_tui.results.evidence import TraceTail
from ptb_tui.results.index import cache_folder
from ptb_tui.results.records import RunRecord
from ptb_tui.results.regular import open_regular, read_regular
from ptb_tui.traces import index

Spent = tuple[float | None, int | None]  # dollars, tokens
UNKNOWN: Spent = (None, None)
_FORMAT = 1
_LIMIT = 64 << 20  # bytes of a trace index, and of the cache


def _spent(usage: Usage) -> Spent:
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    known = [count for count in counts if isinstance(count, int) and count >= 0]
    cost = usage.cost_usd
    sensible = isinstance(cost, int | float) and 0 <= cost < 1e9
    return (float(cost) if cost is not None and sensible else None, sum(known) if known else None)


def _said(events: Iterable[TraceEvent]) -> Spent:
    """What sessions say at their end, in the part of a trace that was read."""
    return _spent(index.totals(event for event in events if event.kind is TraceKind.RESULT))


def _of_index(fd: int) -> Spent:
    with os.fdopen(fd, "rb") as file:
        return _spent(index.totals(index.rows(file)))


class Spending:
    """Looks up runs one after the other; `save` keeps what was read. `family` names the trace family of an agent."""

    def __init__(self, root: Root, family: Callable[[str], str]) -> None:
        self._path = cache_folder(root) / "spending.json"
        self._family = family
        self._changed = False
        self._kept: dict[str, list[Any]] = {}
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            body = from_json(read_regular(self._path, _LIMIT) or b"{}")
            if body.get("v") == _FORMAT:
                self._kept = dict(body["runs"])

    def of(self, record: RunRecord) -> Spent:
        """Money and tokens of one run. Total."""
        if not record.values.get("has_trace") or record.place != "run":
            return UNKNOWN
        path = record.path / ("solve_out.txt" if record.foreign else ".ptb/trace.idx")
        try:
            info = os.lstat(path)
        except OSError:
            return UNKNOWN
        if not stat.S_ISREG(info.st_mode) or (not record.foreign and info.st_size > _LIMIT):
            return UNKNOWN
        key, stamp = str(path), [info.st_mtime_ns, info.st_size]
        kept = self._kept.get(key)
        if isinstance(kept, list) and len(kept) == 4 and kept[:2] == stamp:
            return kept[2], kept[3]
        found = self._read(record)
        self._kept[key] = [*stamp, *found]
        self._changed = True
        return found

    def _read(self, record: RunRecord) -> Spent:
        if record.foreign:
            return _said(TraceTail(record.path, self._family(record.agent)).events)
        fd = open_regular(record.path / ".ptb" / "trace.idx")
        try:
            return _of_index(fd) if fd >= 0 else UNKNOWN
        except OSError:
            return UNKNOWN

    def save(self) -> None:
        """Keep what was read; a cache that cannot be written costs time alone."""
        if self._changed:
            with contextlib.suppress(OSError, ValueError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                files.replace(self._path, to_json({"v": _FORMAT, "runs": self._kept}))
