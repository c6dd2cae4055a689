"""Gemini CLI's `--output-format stream-json` (H §3.4).

Its new attempts are told on the error stream alone, in lines of a fixed wording; in this format nothing an agent says
or prints can begin a line, so those lines are read. Why a session failed stands in the error of its result.
"""

from __future__ import annotations

import re
from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.blocks import count, pretty, result_text
from ptb_tui.traces.gemini_log import log_events
from ptb_tui.traces.jsonlines import Calls, Delta, EventMaker, JsonLinesParser, error_words, scalars, string, without
from ptb_tui.traces.plain import one_line
from ptb_tui.traces.refusals import (
    LIMIT,
    LOGIN,
    NETWORK,
    QUOTA,
    RATE_LIMIT,
    by_body,
    by_status,
    by_type,
    by_words,
    join,
    known,
)
from ptb_tui.traces.tools import input_text, result_event

_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
_ATTEMPT = re.compile(rb"Attempt ([0-9]{1,4}) failed(?: with status ([0-9]{3}))?[.:](?:\s|$)")
_DELAY = re.compile(rb"Retrying after ([0-9]{1,9})ms")
_NO_KEY = b"When using Gemini API, you must specify the GEMINI_API_KEY environment variable."
_API = "[API Error: "
_OFFLINE = "exception TypeError: fetch failed"
_WORDS = (  # how Gemini begins
    (f"{_API}You have exhausted your ", QUOTA),
    (f"{_API}Resource has been exhausted", RATE_LIMIT),
    (f"{_API}{_OFFLINE}", NETWORK),
)


def usage_of(value: object) -> Usage | None:
    """Counts of `stats`: `input` is what did not come from the cache."""
    table: dict[str, Any] = value if isinstance(value, dict) else {}
    read, total = count(table.get("cached")), count(table.get("input_tokens"))
    fresh = count(table.get("input"))
    if fresh is None and total is not None:
        fresh = max(0, total - (read or 0))
    usage = Usage(fresh, count(table.get("output_tokens")), read)
    return None if usage == Usage() else usage


def facts_of(error: object, stamp: str) -> dict[str, Any]:
    """Cause, status and end of a limit, from the error of a result."""
    if not isinstance(error, dict):
        return {}
    message = string(error, "message")
    facts = by_type(error.get("type")) if error.get("type") != "unknown" else {}
    facts = join(facts, *(known(trouble) for start, trouble in _WORDS if message.startswith(start)))
    if message.startswith(_API + "{"):
        facts = join(facts, by_body(message[len(_API) : message.rfind("}") + 1], stamp))
    return {**facts, **by_words(message, stamp)} if facts.get("cause") == LIMIT else facts


class GeminiParser(JsonLinesParser):
    """TraceParser for stream-json."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = Calls()
        self._session = ""

    def _text(self, make: EventMaker, text: bytes, reason: str) -> list[TraceEvent]:
        if text.startswith(_NO_KEY) and not reason:
            return [make.text(TraceKind.ERROR, text.decode("utf-8", "replace"), _ERROR, data=known(LOGIN))]
        match = _ATTEMPT.match(text) if not reason else None
        if match is None:
            return super()._text(make, text, reason)
        facts: dict[str, Any] = {"attempt": int(match[1]), **(by_status(int(match[2])) if match[2] else {})}
        if delay := _DELAY.search(text, 0, 2000):
            facts["retry_delay_ms"] = int(delay[1])
        words = text.decode("utf-8", "replace")
        if _OFFLINE in words[:200]:
            facts |= known(NETWORK)
        return [make.text(TraceKind.RETRY, words, _WARNING, data=facts)]

    def _untyped(self, make: EventMaker, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        return log_events(make, item)

    def _object(self, make: EventMaker, kind: str, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        if kind == "message":
            return self._message(make, item)
        rest = without(item, "type", "timestamp")
        if kind == "init":
            self._session = string(item, "session_id")
            model = string(item, "model") or "unknown"
            facts = {"model": model[:200], **scalars(item, "session_id")}
            return [make(TraceKind.INIT, one_line(model), pretty(rest), data=facts)]
        if kind == "tool_use":
            name, call_id = string(item, "tool_name") or "tool", string(item, "tool_id")
            text = input_text(item.get("parameters"))
            facts = self._calls.begin(name, call_id, text)
            return [make.text(TraceKind.TOOL_CALL, text, data=facts, tool=name, tool_id=call_id)]
        if kind == "tool_result":
            return [self._result(make, item)]
        if kind == "error":
            severity = _WARNING if item.get("severity") == "warning" else _ERROR
            return [make.text(TraceKind.ERROR, error_words(item), severity, data=scalars(item, "severity"))]
        if kind == "result":
            return self._end(make, item, rest)
        return [make.unknown(kind, rest)]

    def _message(self, make: EventMaker, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        said = TraceKind.USER if item.get("role") == "user" else TraceKind.TEXT
        text = result_text(item.get("content"))
        if item.get("delta") is True:
            return Delta(said, text)
        if said is TraceKind.TEXT:
            self._background.said(text)
        return [make.text(said, text)]

    def _result(self, make: EventMaker, item: dict[str, Any]) -> TraceEvent:
        call_id = string(item, "tool_id")
        output = result_text(item.get("output"))
        wrong = error_words(item) if item.get("error") is not None else ""
        text = "\n".join(part for part in (wrong, output) if part)
        return result_event(make, self._calls.name(call_id), call_id, text, failed=item.get("status") == "error")

    def _end(self, make: EventMaker, item: dict[str, Any], rest: dict[str, Any]) -> list[TraceEvent]:
        failed = item.get("status") == "error" or item.get("error") is not None
        status = string(item, "status") or "end"
        facts: dict[str, Any] = {**scalars({"session_id": self._session}, "session_id"), **scalars(item, "status")}
        usage = usage_of(item.get("stats"))
        if not failed:
            end = make(TraceKind.RESULT, one_line(status), pretty(rest), data=facts, usage=usage)
            return self._end_of_session(make, end)
        self._background.at_end()
        message = error_words(item)
        causes = facts_of(item.get("error"), make.time)
        facts = {**facts, **causes, "is_error": True}
        title = one_line(f"{status}: {message}")
        end = make(TraceKind.RESULT, title, pretty(rest), _ERROR, data=facts, usage=usage)
        if causes.get("cause") != LIMIT:
            return [end]
        return [make.text(TraceKind.LIMIT, message, _ERROR, data=causes), end]
