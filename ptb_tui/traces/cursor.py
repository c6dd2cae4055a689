"""Cursor's `--output-format stream-json` (H §3.6): Claude's messages, with tool calls and thinking of its own.

Some versions print inner objects as text in Python's notation; they are read as what they stand for.
"""

from __future__ import annotations

from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind
from ptb_tui.traces.blocks import pretty, result_text
from ptb_tui.traces.claude import ClaudeParser
from ptb_tui.traces.jsonlines import Delta, EventMaker, scalars, string, without
from ptb_tui.traces.literals import literal
from ptb_tui.traces.plain import one_line
from ptb_tui.traces.tools import input_text, result_event

_NESTED = ("message", "tool_call", "usage")
_OUTCOMES = ("result", "output", "response")
_GOOD = ("success", "completed")
_COUNTS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_input_tokens",
    "cacheWriteTokens": "cache_creation_input_tokens",
}
_PATHS = ("relativeWorkspacePath", "path", "targetFile")


class CursorParser(ClaudeParser):
    """TraceParser for stream-json."""

    def _object(self, make: EventMaker, kind: str, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        for key in _NESTED:
            if isinstance(value := item.get(key), str):
                item = {**item, key: literal(value)}
        if kind == "assistant" or kind == "user":
            return super()._object(make, kind, item)
        subtype = string(item, "subtype")
        if kind == "thinking":
            return Delta(TraceKind.THINKING, string(item, "text"))
        if kind == "tool_call" and isinstance(call := item.get("tool_call"), dict):
            return self._tool(make, subtype, string(item, "call_id").split("\n")[0], call)
        rest = without(item, "type", "session_id", "timestamp_ms")
        if kind in ("retry", "connection"):
            facts = scalars(item, "subtype", "attempt", "max_retries", "retry_delay_ms", "error")
            again = TraceKind.RETRY if kind == "retry" else TraceKind.SYSTEM
            title = one_line(f"{kind} {subtype}".strip())
            return [make(again, title, pretty(rest), Severity.WARNING, data=facts)]
        if kind == "interaction_query":
            title = one_line(" ".join(part for part in (kind, subtype, string(item, "query_type")) if part))
            return [make(TraceKind.SYSTEM, title, pretty(rest))]
        if kind == "result" and isinstance(usage := item.get("usage"), dict):
            item["usage"] = {_COUNTS.get(key, key): value for key, value in usage.items()}
        return super()._object(make, kind, item)

    def _tool(self, make: EventMaker, subtype: str, call_id: str, wrapper: dict[str, Any]) -> list[TraceEvent]:
        name = next((key for key in wrapper if key.endswith("ToolCall")), next(iter(wrapper), "tool"))
        inner = wrapper.get(name)
        call: dict[str, Any] = inner if isinstance(inner, dict) else {"args": inner}
        tool = string(call, "name") if name == "function" else name.removesuffix("ToolCall")
        text = _input(call.get("args", call.get("arguments")))
        events = []
        ended = subtype != "started"
        if not (ended and self._calls.end(call_id)):
            facts = self._calls.begin(tool, "" if ended else call_id, text)
            events.append(make.text(TraceKind.TOOL_CALL, text, data=facts, tool=tool, tool_id=call_id))
        if ended:
            outcome = next((call[key] for key in _OUTCOMES if key in call), None)
            events.append(_outcome(make, tool, call_id, outcome))
        return events


def _input(args: object) -> str:
    if isinstance(args, dict):
        args = without(args, "toolCallId")
        path = string(args, *_PATHS)
        if path and "command" not in args:
            rest = {key: value for key, value in args.items() if value != path}
            return path + ("\n" + pretty(rest) if rest else "")
    return input_text(args)


def _outcome(make: EventMaker, tool: str, call_id: str, outcome: object) -> TraceEvent:
    """Results are `{success: {…}}`, or another single key that says what went wrong."""
    if not isinstance(outcome, dict) or len(outcome) != 1:
        return result_event(make, tool, call_id, result_text(outcome))
    ((how, value),) = outcome.items()
    failed = how not in _GOOD
    table: dict[str, Any] = value if isinstance(value, dict) else {}
    printed = [string(table, key) for key in ("stdout", "stderr")]
    if "stdout" in table or "stderr" in table:
        text = "\n".join(part for part in printed if part)
    else:
        text = string(table, "content", "errorMessage", "error", "message") or result_text(value)
    text = f"{how}: {text}" if failed and how not in ("failure", "error") else text
    return result_event(make, tool, call_id, text, table.get("exitCode"), failed=failed)
