"""Codex (H §3.3): items of `exec --json` from 0.44 on; the older `{id, msg}` and the text mode have modules of their
own.

Codex says everything that went wrong in one string. Its beginning is Codex's own wording, which tells a limit, a
sign-in and a new attempt apart; an agent's text stands in items and raises nothing.
"""

from __future__ import annotations

import re
from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.blocks import count, pretty, result_text
from ptb_tui.traces.codex_legacy import LegacyCodex
from ptb_tui.traces.codex_text import TextMode
from ptb_tui.traces.jsonlines import Calls, Delta, EventMaker, JsonLinesParser, error_words, scalars, string, without
from ptb_tui.traces.plain import one_line
from ptb_tui.traces.refusals import (
    LIMIT,
    LOGIN,
    MODEL,
    NETWORK,
    QUOTA,
    SERVER,
    USAGE_LIMIT,
    by_body,
    by_status,
    by_words,
    known,
)
from ptb_tui.traces.tools import command_text, result_event

_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
_RETRY = re.compile(r"Reconnecting\.\.\. (?:([0-9]{1,4})/([0-9]{1,4})|waiting for network)\b")
_STATUS = re.compile(r"(?:unexpected status|exceeded retry limit, last status:) ([0-9]{3})\b")
_WORDS = (  # how Codex begins
    ("You've hit your usage limit", USAGE_LIMIT),
    ("Quota exceeded.", QUOTA),
    ("Your access token could not be refreshed", LOGIN),
    ("Missing environment variable: `", LOGIN),
    ("We're currently experiencing high demand", SERVER),
    ("Incomplete response returned, reason: content_filter", MODEL),
    ("Connection failed: ", NETWORK),
    ("stream disconnected before completion: ", NETWORK),
    ("error sending request", NETWORK),
)
_TOOLS = {
    "command_execution": "shell",
    "file_change": "apply_patch",
    "web_search": "web_search",
    "mcp_tool_call": "mcp",
}


def usage_of(value: object) -> Usage | None:
    """Counts of a Codex `usage`, whose input includes what came from and went into the cache; here it does not."""
    table: dict[str, Any] = value if isinstance(value, dict) else {}
    read, written = count(table.get("cached_input_tokens")), count(table.get("cache_write_input_tokens"))
    total = count(table.get("input_tokens"))
    fresh = None if total is None else max(0, total - (read or 0) - (written or 0))
    usage = Usage(fresh, count(table.get("output_tokens")), read, written)
    return None if usage == Usage() else usage


def facts_of(message: str, stamp: str) -> dict[str, Any]:
    """What Codex's own error message says about cause, status and the end of a limit."""
    if message.startswith("{"):
        return by_body(message, stamp)
    plain = message[:200].replace("’", "'")
    facts: dict[str, Any] = {}
    if (match := _STATUS.match(plain)) is not None:
        facts = by_status(int(match[1]))
    else:
        facts = next((known(trouble) for start, trouble in _WORDS if plain.startswith(start)), {})
    return {**facts, **by_words(message, stamp)} if facts.get("cause") == LIMIT else facts


def trouble(make: EventMaker, message: str) -> TraceEvent:
    """The event of an error message: a new attempt, a limit, or an error."""
    if (match := _RETRY.match(message)) is not None:
        counts = {"attempt": int(match[1]), "max_retries": int(match[2])} if match[1] else {"network": False}
        reason = message[match.end() :].strip(" ()")
        return make.text(TraceKind.RETRY, message, _WARNING, data={**facts_of(reason, make.time), **counts})
    facts = facts_of(message, make.time)
    kind = TraceKind.LIMIT if facts.get("cause") == LIMIT else TraceKind.ERROR
    return make.text(kind, message, _ERROR, data=facts)


class CodexParser(JsonLinesParser):
    """TraceParser for `codex exec`, with and without `--json`."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = Calls()
        self._thread = ""
        self._legacy = LegacyCodex(self._calls, usage_of, trouble)
        self._mode = TextMode()

    def _text(self, make: EventMaker, text: bytes, reason: str) -> list[TraceEvent]:
        found = self._mode.line(make, text) if not reason else None
        return [found] if found is not None else super()._text(make, text, reason)

    def _untyped(self, make: EventMaker, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        self._mode.stop()
        return self._legacy.events(make, item)

    def _object(self, make: EventMaker, kind: str, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        self._mode.stop()
        inner = item.get("item")
        if isinstance(inner, dict) and kind.startswith("item."):
            return self._item(make, kind[5:], inner)
        rest = without(item, "type")
        if kind in ("thread.started", "session.created"):
            self._thread = string(item, "thread_id", "session_id")
            self._calls = self._legacy.calls = Calls()
            facts = scalars({"session_id": self._thread}, "session_id")
            return [make(TraceKind.INIT, one_line(f"thread {self._thread}"), pretty(rest), data=facts)]
        if kind == "turn.started":
            return [make(TraceKind.SYSTEM, kind, pretty(rest) if rest else "")]
        if kind in ("turn.completed", "turn.failed"):
            return self._turn(make, kind == "turn.failed", rest)
        if kind == "error":
            return [trouble(make, error_words(item))]
        return [make.unknown(kind, rest)]

    def _turn(self, make: EventMaker, failed: bool, rest: dict[str, Any]) -> list[TraceEvent]:
        facts: dict[str, Any] = scalars({"session_id": self._thread}, "session_id")
        usage = usage_of(rest.get("usage"))
        if not failed:
            end = make(TraceKind.RESULT, "turn completed", pretty(rest), data=facts, usage=usage)
            return self._end_of_session(make, end)
        self._background.at_end()
        message = error_words(rest)
        facts.update({**facts_of(message, make.time), "is_error": True})
        title = one_line(f"turn failed: {message}")
        return [make(TraceKind.RESULT, title, pretty(rest), _ERROR, data=facts, usage=usage)]

    def _item(self, make: EventMaker, phase: str, item: dict[str, Any]) -> list[TraceEvent]:
        kind = string(item, "type", "item_type") or "item without a type"
        item_id = string(item, "id")
        if kind in ("agent_message", "assistant_message", "reasoning") and isinstance(text := item.get("text"), str):
            said = TraceKind.THINKING if kind == "reasoning" else TraceKind.TEXT
            if said is TraceKind.TEXT:
                self._background.said(text)
            return [make.text(said, text, message_id=item_id)]
        if kind == "error":
            return [make.text(TraceKind.SYSTEM, error_words(item), _WARNING, data={"item": "error"})]
        if kind == "todo_list":
            return [_todo(make, item)]
        if kind not in _TOOLS:
            return [make.unknown(f"{kind} ({phase})", without(item, "type", "item_type", "id"))]
        if phase not in ("started", "completed"):
            rest = without(item, "type", "item_type", "id")
            return [make(TraceKind.SYSTEM, one_line(f"{kind} ({phase})"), pretty(rest), tool_id=item_id)]
        tool, text = _call(kind, item)
        events = []
        self._background.end(item_id)
        if phase == "started" and kind == "command_execution":
            self._background.begin(item_id)
        if phase == "started" or not self._calls.end(item_id):
            facts = self._calls.begin(tool, item_id if phase == "started" else "", text)
            events.append(make.text(TraceKind.TOOL_CALL, text, data=facts, tool=tool, tool_id=item_id))
        if phase == "completed":
            events.append(_outcome(make, kind, tool, item))
        return events


def _call(kind: str, item: dict[str, Any]) -> tuple[str, str]:
    """Name and input of a tool call."""
    if kind == "command_execution":
        return _TOOLS[kind], command_text(item.get("command"))
    if kind == "web_search":
        return _TOOLS[kind], f"search: {string(item, 'query')}"
    if kind == "mcp_tool_call":
        name = ".".join(part for part in (string(item, "server"), string(item, "tool")) if part)
        return name or _TOOLS[kind], pretty(item.get("arguments"))
    changes = item.get("changes")
    lines = [
        f"{string(change, 'kind')} {string(change, 'path')}" if isinstance(change, dict) else pretty(change)
        for change in (changes if isinstance(changes, list) else [changes])
    ]
    return _TOOLS[kind], "\n".join(lines)


def _outcome(make: EventMaker, kind: str, tool: str, item: dict[str, Any]) -> TraceEvent:
    status = string(item, "status")
    if kind == "command_execution":
        text = result_text(item.get("aggregated_output"))
    elif item.get("error") is not None:
        text = error_words(item)
    elif isinstance(result := item.get("result"), dict):
        text = result_text(result.get("content", result))
    else:
        text = status or "completed"
    failed = status in ("failed", "declined")
    return result_event(make, tool, string(item, "id"), text, item.get("exit_code"), failed=failed)


def _todo(make: EventMaker, item: dict[str, Any]) -> TraceEvent:
    listed = item.get("items")
    items = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if not items:
        return make(TraceKind.SYSTEM, "to do", pretty(without(item, "type", "id")), data={"item": "todo_list"})
    done = sum(entry.get("completed") is True for entry in items)
    body = "\n".join(f"[{'x' if entry.get('completed') is True else ' '}] {string(entry, 'text')}" for entry in items)
    return make(TraceKind.SYSTEM, f"to do: {done} of {len(items)} done", body, data={"item": "todo_list"})
