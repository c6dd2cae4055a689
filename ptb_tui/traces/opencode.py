"""OpenCode's `run --format json` (H §3.5).

A tool is reported when it has ended, so one line is a call and its result. A session has no closing event: its last
`step_finish` says why it stopped, its errors carry the HTTP status and headers of the provider.
"""

from __future__ import annotations

from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.blocks import count, money, pretty, result_text
from ptb_tui.traces.jsonlines import Calls, Delta, EventMaker, JsonLinesParser, error_words, scalars, string, without
from ptb_tui.traces.plain import one_line
from ptb_tui.traces.refusals import LIMIT, MODEL, NETWORK, after, by_body, by_status, by_type, by_words, join, known
from ptb_tui.traces.tools import input_text, result_event

_OFFLINE = "Cannot connect to API: "


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def usage_of(tokens: object, cost: object) -> Usage | None:
    """Counts of a step. Reasoning is counted beside the output where the total says so, and is output here."""
    table = _table(tokens)
    cache = _table(table.get("cache"))
    fresh, output, total = (count(table.get(name)) for name in ("input", "output", "total"))
    read, written = count(cache.get("read")), count(cache.get("write"))
    reasoning = count(table.get("reasoning"))
    if output is not None and reasoning and total == (fresh or 0) + output + reasoning + (read or 0) + (written or 0):
        output += reasoning
    usage = Usage(fresh, output, read, written, money(cost))
    return None if usage == Usage() else usage


class OpenCodeParser(JsonLinesParser):
    """TraceParser for `--format json`."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = Calls()
        self._session = ""

    def _object(self, make: EventMaker, kind: str, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        part = item.get("part")
        if kind == "error":
            return [_error(make, item)]
        if not isinstance(part, dict):
            return [make.unknown(kind, without(item, "type", "timestamp"))]
        message_id = string(part, "messageID")
        if kind in ("text", "reasoning") and isinstance(text := part.get("text"), str):
            said = TraceKind.THINKING if kind == "reasoning" else TraceKind.TEXT
            if said is TraceKind.TEXT:
                self._background.said(text)
            return [make.text(said, text, message_id=message_id)]
        if kind == "tool_use":
            return self._tool(make, part, message_id)
        if kind == "step_start":
            return [self._start(make, string(item, "sessionID"), part)]
        if kind == "step_finish":
            # A message may have several steps: what each used is added up, so each is a message of its own here.
            reason = string(part, "reason") or "no reason"
            usage = usage_of(part.get("tokens"), part.get("cost"))
            title = one_line(f"step finished: {reason}")
            body = pretty(without(part, "id", "type", "messageID", "sessionID", "reason"))
            end = make(TraceKind.SYSTEM, title, body, message_id=string(part, "id") or message_id, usage=usage)
            if by_type(reason).get("trouble") == MODEL:
                refused = make(TraceKind.ERROR, "the model refused to answer", "", Severity.ERROR, data=known(MODEL))
                return [refused, end]
            return self._end_of_session(make, end) if reason == "stop" else [end]
        return [make.unknown(kind, without(item, "type", "timestamp"))]

    def _start(self, make: EventMaker, session: str, part: dict[str, Any]) -> TraceEvent:
        if not session or session == self._session:
            return make(TraceKind.SYSTEM, "step started", message_id=string(part, "messageID"))
        self._session = session
        data = scalars({"session_id": session}, "session_id")
        return make(TraceKind.INIT, one_line(f"session {session}"), data=data, message_id=string(part, "messageID"))

    def _tool(self, make: EventMaker, part: dict[str, Any], message_id: str) -> list[TraceEvent]:
        name, call_id = string(part, "tool") or "tool", string(part, "callID")
        state = _table(part.get("state"))
        status = string(state, "status")
        events = []
        ended = status not in ("pending", "running")
        if not (ended and call_id and self._calls.end(call_id)):
            text = input_text(state["input"]) if "input" in state else pretty(part.get("state"))
            facts = self._calls.begin(name, "" if ended else call_id, text)
            events.append(
                make.text(TraceKind.TOOL_CALL, text, data=facts, tool=name, tool_id=call_id, message_id=message_id)
            )
        if ended:
            output = result_text(state.get("output"))
            wrong = result_text(state.get("error")) if status == "error" or state.get("error") is not None else ""
            text = "\n".join(part for part in (wrong, output) if part)
            code = _table(state.get("metadata")).get("exit")
            events.append(result_event(make, name, call_id, text, code, failed=status == "error"))
        return events


def _error(make: EventMaker, item: dict[str, Any]) -> TraceEvent:
    error = item.get("error")
    if not isinstance(error, dict):
        return make.text(TraceKind.ERROR, error_words(item), Severity.ERROR)
    data = _table(error.get("data"))
    message = string(data, "message") or error_words(item)
    headers = _table(data.get("responseHeaders"))
    status = by_status(data.get("statusCode"))
    body = by_body(data.get("responseBody"), make.time)
    facts: dict[str, Any] = join(scalars(error, "name"), body, status)
    if message.startswith(_OFFLINE) and "error_status" not in facts:
        facts |= known(NETWORK)
    limited = facts.get("cause") == LIMIT
    if limited and "resetsAt" not in facts:
        facts.update(after(headers.get("retry-after"), make.time) or by_words(message, make.time))
    facts.update(scalars(data, "isRetryable"))
    kind = TraceKind.LIMIT if limited else TraceKind.ERROR
    title = one_line(message)
    return make(kind, title, pretty(error), Severity.ERROR, data=facts)
