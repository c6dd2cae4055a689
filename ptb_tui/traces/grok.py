"""Grok's `--output-format streaming-json`: `thought` and `text` in pieces, `end` or `error` at last.

It shows no tool calls; should a version do so, they are kept as unknown types.
"""

from __future__ import annotations

from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.blocks import count, money, pretty
from ptb_tui.traces.jsonlines import Delta, EventMaker, JsonLinesParser, error_words, scalars, string, without
from ptb_tui.traces.plain import one_line
from ptb_tui.traces.refusals import LIMIT, MODEL, by_status, by_type, by_words, join, known

_PIECES = {"text": TraceKind.TEXT, "thought": TraceKind.THINKING}
_COSTS = ("total_cost_usd", "totalCostUsd", "cost_usd", "costUsd")
_CANCELLED = ("cancelled", "canceled", "error", "refusal")


def usage_of(value: object, cost: object) -> Usage | None:
    """Counts of a `usage`. Where the total shows that the input includes what came from the cache, it is taken out."""
    table: dict[str, Any] = value if isinstance(value, dict) else {}
    fresh, output = count(table.get("input_tokens")), count(table.get("output_tokens"))
    read, written = count(table.get("cache_read_input_tokens")), count(table.get("cache_creation_input_tokens"))
    total = count(table.get("total_tokens"))
    if fresh is not None and read and total == fresh + (output or 0):
        fresh = max(0, fresh - read)
    usage = Usage(fresh, output, read, written, money(cost))
    return None if usage == Usage() else usage


class GrokParser(JsonLinesParser):
    """TraceParser for streaming-json."""

    def _object(self, make: EventMaker, kind: str, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        rest = without(item, "type")
        if kind in _PIECES and isinstance(text := item.get("data", item.get("text")), str):
            return Delta(_PIECES[kind], text)
        if kind == "end":
            end = _end(make, item, rest)
            if end.severity is Severity.INFO:
                return self._end_of_session(make, end)
            self._background.at_end()
            return [end]
        if kind == "error":
            return [_error(make, item, rest)]
        return [make.unknown(kind, rest)]


def _end(make: EventMaker, item: dict[str, Any], rest: dict[str, Any]) -> TraceEvent:
    reason = string(item, "stopReason", "stop_reason") or "end"
    failed = reason.lower() in _CANCELLED or item.get("error") is not None
    facts: dict[str, Any] = scalars({"session_id": string(item, "sessionId", "session_id")}, "session_id")
    facts["stop_reason"] = reason[:200]
    if failed:
        facts["is_error"] = True
        facts.update(known(MODEL) if reason.lower() == "refusal" else {})
    cost = next((item[key] for key in _COSTS if money(item.get(key)) is not None), None)
    severity = Severity.ERROR if failed else Severity.INFO
    usage = usage_of(item.get("usage"), cost)
    return make(TraceKind.RESULT, one_line(reason), pretty(rest), severity, data=facts, usage=usage)


def _error(make: EventMaker, item: dict[str, Any], rest: dict[str, Any]) -> TraceEvent:
    error = item.get("error")
    source = error if isinstance(error, dict) else item
    message = error_words(item)
    facts = by_type(source.get("code"))
    facts = join(facts, *(by_status(source.get(name)) for name in ("status", "statusCode", "code")))
    limited = facts.get("cause") == LIMIT
    if limited:
        facts.update(by_words(message, make.time))
    kind = TraceKind.LIMIT if limited else TraceKind.ERROR
    return make(kind, one_line(message), pretty(rest), Severity.ERROR, data=facts)
