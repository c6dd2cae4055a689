"""`trace.idx`: one compact JSON line per event, so that a viewer can find rows, problems and costs without parsing.

A row is the wire form of the event without its text: `o` offset, `n` length, `k` kind, `s` severity, `u` usage,
`m` message, `tool`, and the few facts in `d`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic_core import from_json

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.lines import LineSplitter

_FACTS = frozenset((TraceKind.INIT, TraceKind.LIMIT, TraceKind.RETRY, TraceKind.ERROR, TraceKind.RESULT))
_JSON = json.JSONEncoder(separators=(",", ":"))
_DROPPED = ("h", "b", "t", "id")
_MESSAGES = 1 << 16  # messages whose usage is remembered to find repetitions


def encode(event: TraceEvent) -> str:
    """One row with its line feed. ASCII."""
    if event.kind is TraceKind.RAW and event.severity is Severity.INFO:
        return f'{{"o":{event.offset},"n":{event.length},"k":"raw"}}\n'
    wire = event.to_wire()
    for key in _DROPPED:
        wire.pop(key, None)
    if event.kind not in _FACTS:
        wire.pop("d", None)
    return _JSON.encode(wire) + "\n"


def decode(line: bytes) -> TraceEvent | None:
    """Read one row; None when it is torn or not a row."""
    try:
        wire = from_json(line)
        return TraceEvent.from_wire(wire) if isinstance(wire, dict) else None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def rows(file: BinaryIO) -> Iterator[TraceEvent]:
    """The rows of an index from the file's position on, in bounded memory; lines that are none are skipped."""
    splitter = LineSplitter()
    while block := file.read(1 << 16):
        for line in splitter.feed(block):
            if (event := decode(line.data)) is not None:
                yield event


def read(path: Path) -> Iterator[TraceEvent]:
    """The rows of an index file; none when it is absent. OSError when it cannot be read."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        yield from rows(file)


def _most(a: Usage | None, b: Usage) -> Usage:
    """Field by field the larger: counts of one message or session only grow."""
    if a is None:
        return b

    def more(x: int | None, y: int | None) -> int | None:
        return y if x is None else x if y is None else max(x, y)

    costs = [cost for cost in (a.cost_usd, b.cost_usd) if cost is not None]
    return Usage(
        more(a.input, b.input),
        more(a.output, b.output),
        more(a.cache_read, b.cache_read),
        more(a.cache_write, b.cache_write),
        max(costs, default=None),
    )


def _sum(parts: Iterable[Usage]) -> Usage:
    def add(a: int | None, b: int | None) -> int | None:
        return b if a is None else a if b is None else a + b

    total = Usage()
    for part in parts:
        costs = [cost for cost in (total.cost_usd, part.cost_usd) if cost is not None]
        total = Usage(
            add(total.input, part.input),
            add(total.output, part.output),
            add(total.cache_read, part.cache_read),
            add(total.cache_write, part.cache_write),
            sum(costs) if costs else None,
        )
    return total


def totals(events: Iterable[TraceEvent]) -> Usage:
    """Usage of a whole trace. A CLI repeats a message over several lines: its counts are taken once. A result speaks
    for its session so far, so it replaces the messages before it; what came after the last result is added."""
    sessions: dict[str, Usage] = {}
    messages: dict[str, Usage] = {}
    spilled = Usage()
    for event in events:
        if event.usage is None:
            continue
        if event.kind is TraceKind.RESULT:
            session = str(event.data.get("session_id", ""))
            before = _sum((spilled, *messages.values()))
            said = _known(event.usage, before)
            sessions[session] = _most(sessions.get(session), said)
            messages, spilled = {}, Usage()
        else:
            key = event.message_id or f"@{event.offset}"
            messages[key] = _most(messages.get(key), event.usage)
            if len(messages) > _MESSAGES:
                spilled = _sum((spilled, messages.pop(next(iter(messages)))))
    return _sum((spilled, *messages.values(), *sessions.values()))


def _known(usage: Usage, otherwise: Usage) -> Usage:
    """A result's numbers; where it has none, those of the messages before it."""

    def pick(a: int | None, b: int | None) -> int | None:
        return b if a is None else a

    return Usage(
        pick(usage.input, otherwise.input),
        pick(usage.output, otherwise.output),
        pick(usage.cache_read, otherwise.cache_read),
        pick(usage.cache_write, otherwise.cache_write),
        usage.cost_usd if usage.cost_usd is not None else otherwise.cost_usd,
    )
