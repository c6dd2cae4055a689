"""Gemini's other shape: a log of API calls, `{method, response: chunk or chunks, error}` (H §3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.blocks import count, pretty
from ptb_tui.traces.jsonlines import EventMaker, error_words, string, without
from ptb_tui.traces.tools import input_text, result_event

_KNOWN = ("method", "response", "error", "stats")


def _usage(chunks: list[dict[str, Any]]) -> Usage | None:
    """The last count of a call, because each chunk repeats what was counted so far."""
    tables = [table for chunk in chunks if isinstance(table := chunk.get("usageMetadata"), dict)]
    if not tables:
        return None
    table = tables[-1]
    read, prompt = count(table.get("cachedContentTokenCount")), count(table.get("promptTokenCount"))
    answer, thoughts = count(table.get("candidatesTokenCount")), count(table.get("thoughtsTokenCount"))
    fresh = None if prompt is None else max(0, prompt - (read or 0))
    usage = Usage(fresh, None if answer is None else answer + (thoughts or 0), read)
    return None if usage == Usage() else usage


def log_events(make: EventMaker, item: dict[str, Any]) -> list[TraceEvent]:
    """The events of one logged call; none when the object is no such call."""
    if "response" not in item and not ("method" in item and "error" in item):
        return []
    response = item.get("response")
    chunks = [chunk for chunk in (response if isinstance(response, list) else [response]) if isinstance(chunk, dict)]
    method = string(item, "method")
    events = [event for chunk in chunks for part in _parts(chunk) for event in [_part(make, part)]]
    if item.get("error") is not None:
        events.append(make.text(TraceKind.ERROR, error_words(item), Severity.ERROR, data={"method": method[:80]}))
    rest = without(item, *_KNOWN) if events else item
    usage = _usage(chunks)
    if rest or usage is not None:
        title = f"API call {method[:80]}".strip().replace("\n", " ")
        events.append(make(TraceKind.SYSTEM, title, pretty(rest) if rest else "", usage=usage))
    return events


def _parts(chunk: dict[str, Any]) -> Iterator[object]:
    candidates = chunk.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        content = candidate.get("content") if isinstance(candidate, dict) else None
        parts = content.get("parts") if isinstance(content, dict) else None
        yield from parts if isinstance(parts, list) else ()


def _part(make: EventMaker, part: object) -> TraceEvent:
    if isinstance(part, dict):
        if isinstance(text := part.get("text"), str):
            return make.text(TraceKind.THINKING if part.get("thought") is True else TraceKind.TEXT, text)
        if isinstance(call := part.get("functionCall"), dict):
            name = string(call, "name") or "tool"
            return make.text(TraceKind.TOOL_CALL, input_text(call.get("args")), tool=name, tool_id=string(call, "id"))
        if isinstance(answer := part.get("functionResponse"), dict):
            return result_event(make, string(answer, "name"), string(answer, "id"), pretty(answer.get("response")))
        if isinstance(inline := part.get("inlineData"), dict):
            return make(TraceKind.TEXT, f"[{string(inline, 'mimeType')[:80] or 'data'}]".replace("\n", " "))
    return make.unknown("part", part)
