"""Codex before 0.44: `{id, msg: {type, …}}` after two objects with the settings and the prompt (H §3.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.blocks import pretty, result_text
from ptb_tui.traces.jsonlines import Calls, Delta, EventMaker, error_words, scalars, string, without
from ptb_tui.traces.plain import one_line
from ptb_tui.traces.tools import command_text, result_event

_TEXTS = {
    "agent_message": TraceKind.TEXT,
    "agent_reasoning": TraceKind.THINKING,
    "agent_reasoning_raw_content": TraceKind.THINKING,
    "user_message": TraceKind.USER,
}
_DELTAS = {
    f"{kind}_delta": _TEXTS[kind] for kind in ("agent_message", "agent_reasoning", "agent_reasoning_raw_content")
}


class LegacyCodex:
    """Events of the old objects. `usage_of` and `trouble` are what the new format uses for the same things."""

    def __init__(self, calls: Calls, usage_of: Callable[[object], Usage | None],
                 trouble: Callable[[EventMaker, str], TraceEvent]) -> None:  # fmt: skip
        self.calls = calls
        self._usage_of, self._trouble = usage_of, trouble
        self._sessions = 0

    def events(self, make: EventMaker, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        """The events of an object without a type; none when it is nothing that Codex wrote."""
        message = item.get("msg")
        if isinstance(message, dict) and isinstance(kind := message.get("type"), str):
            return self._message(make, kind, message)
        if isinstance(item.get("model"), str) and "workdir" in item:
            return [self._session(make, item)]
        if item.keys() == {"prompt"}:
            return [make.text(TraceKind.USER, result_text(item["prompt"]))]
        return []

    def _session(self, make: EventMaker, item: dict[str, Any]) -> TraceEvent:
        self._sessions += 1
        facts = scalars(item, "model", "session_id")
        return make(
            TraceKind.INIT, one_line(string(item, "model") or "session"), pretty(without(item, "type")), data=facts
        )

    def _message(self, make: EventMaker, kind: str, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        rest = without(item, "type")
        if kind in _DELTAS:
            return Delta(_DELTAS[kind], string(item, "delta", "text"))
        if kind in _TEXTS and (text := string(item, "message", "text")):
            return [make.text(_TEXTS[kind], text)]
        if kind == "session_configured":
            return [self._session(make, item)]
        if kind == "error":
            return [self._trouble(make, error_words(item))]
        if kind in ("task_complete", "turn_complete", "turn_aborted"):
            words = string(item, "last_agent_message", "reason")
            aborted = kind == "turn_aborted"
            severity = Severity.ERROR if aborted else Severity.INFO
            data = {"is_error": True} if aborted else {}
            return [
                make(
                    TraceKind.RESULT, one_line(f"{kind}: {words}" if words else kind), pretty(rest), severity, data=data
                )
            ]
        if kind == "token_count":
            return [self._tokens(make, rest)]
        if kind.endswith("_begin"):
            return [self._begin(make, kind.removesuffix("_begin"), rest)]
        if kind.endswith("_end"):
            return [self._end(make, kind.removesuffix("_end"), rest)]
        if kind in ("task_started", "turn_started", "warning", "stream_error", "exec_command_output_delta"):
            severity = Severity.WARNING if kind in ("warning", "stream_error") else Severity.INFO
            retry = TraceKind.RETRY if kind == "stream_error" else TraceKind.SYSTEM
            words = string(item, "message")
            title = one_line(f"{kind}: {words}" if words else kind)
            return [make(retry, title, pretty(rest), severity, tool_id=string(item, "call_id"))]
        return [make.unknown(kind, rest)]

    def _tokens(self, make: EventMaker, rest: dict[str, Any]) -> TraceEvent:
        """The counts are those of the session so far, so all of a session are one message whose numbers grow."""
        info = rest.get("info")
        total = info.get("total_token_usage") if isinstance(info, dict) else rest
        session = f"session-{self._sessions}"
        return make(TraceKind.SYSTEM, "token count", pretty(rest), message_id=session, usage=self._usage_of(total))

    def _begin(self, make: EventMaker, name: str, rest: dict[str, Any]) -> TraceEvent:
        call_id = string(rest, "call_id")
        tool = "shell" if name == "exec_command" else _mcp(rest) or name
        text = command_text(rest["command"]) if "command" in rest else pretty(without(rest, "call_id"))
        facts = self.calls.begin(tool, call_id, text)
        return make.text(TraceKind.TOOL_CALL, text, data=facts, tool=tool, tool_id=call_id)

    def _end(self, make: EventMaker, name: str, rest: dict[str, Any]) -> TraceEvent:
        call_id = string(rest, "call_id")
        tool = self.calls.name(call_id) or ("shell" if name == "exec_command" else _mcp(rest) or name)
        self.calls.end(call_id)
        if name == "exec_command":
            parts = [string(rest, "stdout"), string(rest, "stderr")]
            text = "\n".join(part for part in parts if part) or string(rest, "aggregated_output")
        else:
            text = pretty(without(rest, "call_id"))
        failed = rest.get("success") is False or rest.get("error") is not None
        return result_event(make, tool, call_id, text, rest.get("exit_code"), failed=failed)


def _mcp(rest: dict[str, Any]) -> str:
    inner = rest.get("invocation")
    source = inner if isinstance(inner, dict) else rest
    return ".".join(
        part for part in (string(source, "server_name", "server"), string(source, "tool_name", "tool")) if part
    )
