"""Claude Code's `--output-format stream-json` (H §3.2), as released from 2.0 to 2.1.

Severities come from structured fields alone: an agent that prints "rate limit" raises nothing.
"""

from __future__ import annotations

from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.blocks import call_text, count, image_note, money, names, pretty, result_text
from ptb_tui.traces.jsonlines import Calls, Delta, EventMaker, JsonLinesParser, error_words, scalars
from ptb_tui.traces.plain import one_line

_LIMITS = frozenset(("rate_limit", "billing_error"))
_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR


def usage_of(value: object, cost: object = None) -> Usage | None:
    """Token counts of a `usage` object and a cost; None when neither says anything."""
    table: dict[str, Any] = value if isinstance(value, dict) else {}
    usage = Usage(
        count(table.get("input_tokens")),
        count(table.get("output_tokens")),
        count(table.get("cache_read_input_tokens")),
        count(table.get("cache_creation_input_tokens")),
        money(cost),
    )
    return None if usage == Usage() else usage


class ClaudeParser(JsonLinesParser):
    """TraceParser for stream-json. Several blocks of one line become several events with the same offset."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = Calls()

    def _object(self, make: EventMaker, kind: str, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        if kind in ("assistant", "user"):
            return self._message(make, kind, item)
        if kind == "system":
            return [_system(make, item)]
        if kind == "result":
            return [_result(make, item)]
        rest = {key: value for key, value in item.items() if key != "type"}
        if kind == "rate_limit_event":
            return [_limit(make, rest)]
        if kind == "error":
            return [make(TraceKind.ERROR, one_line(error_words(item)), pretty(rest), _ERROR)]
        return [make.unknown(kind, rest)]

    def _message(self, make: EventMaker, role: str, item: dict[str, Any]) -> list[TraceEvent]:
        message = item.get("message")
        if not isinstance(message, dict):
            text = pretty(message) if message is not None else pretty(item)
            return [make(TraceKind.SYSTEM, f"{role}: a message of another shape", text, data={"unknown": role})]
        if role == "assistant" and isinstance(error := item.get("error"), str):
            return [_failure(make, error, item, message)]
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        events = [self._block(make, role, block) for block in blocks]
        if not events:
            events = [make(TraceKind.SYSTEM, f"{role}: an empty message", data={"empty": True})]
        if role != "assistant":
            return events
        message_id = message.get("id")
        parent = item.get("parent_tool_use_id")
        for number, event in enumerate(events):
            events[number] = make.again(
                event,
                message_id if isinstance(message_id, str) else "",
                usage_of(message.get("usage")) if number == 0 else None,
                {"parent": parent} if isinstance(parent, str) else {},
            )
        return events

    def _block(self, make: EventMaker, role: str, block: object) -> TraceEvent:
        said = TraceKind.TEXT if role == "assistant" else TraceKind.USER
        if isinstance(block, str):
            return make.text(said, block)
        if not isinstance(block, dict):
            return make(said, "null" if block is None else one_line(pretty(block)), data={"unknown": "block"})
        kind = block.get("type")
        if kind == "text" and isinstance(text := block.get("text"), str):
            return make.text(said, text)
        if kind in ("thinking", "redacted_thinking"):
            thought = block.get("thinking")
            if isinstance(thought, str) and thought.strip():
                return make.text(TraceKind.THINKING, thought)
            return make(TraceKind.THINKING, "thinking hidden", data={"hidden": True})
        if kind == "tool_use":
            return self._call(make, block)
        if kind == "tool_result":
            return self._tool_result(make, block)
        if kind == "image":
            return make(said, image_note(block))
        rest = {key: value for key, value in block.items() if key != "type"}
        name = kind if isinstance(kind, str) else "block without a type"
        return make(TraceKind.SYSTEM, f"{role}: {name[:80]}", pretty(rest), data={"unknown": name[:80]})

    def _call(self, make: EventMaker, block: dict[str, Any]) -> TraceEvent:
        name = block["name"] if isinstance(block.get("name"), str) else "tool"
        call_id = block["id"] if isinstance(block.get("id"), str) else ""
        text = call_text(block.get("input"))
        data = self._calls.begin(name, call_id, text)
        return make.text(TraceKind.TOOL_CALL, text, data=data, tool=name, tool_id=call_id)

    def _tool_result(self, make: EventMaker, block: dict[str, Any]) -> TraceEvent:
        call_id = block.get("tool_use_id")
        call_id = call_id if isinstance(call_id, str) else ""
        text = result_text(block["content"] if block.get("content") is not None else block.get("output"))
        failed = block.get("is_error") is True
        data = {"failed": True} if failed else {}
        severity = _WARNING if failed else _INFO
        tool = self._calls.name(call_id)
        return make.text(TraceKind.TOOL_RESULT, text, severity, data=data, tool=tool, tool_id=call_id)


def _system(make: EventMaker, item: dict[str, Any]) -> TraceEvent:
    subtype = item.get("subtype")
    name = subtype if isinstance(subtype, str) else "system"
    rest = {key: value for key, value in item.items() if key not in ("type", "subtype", "uuid")}
    if name == "init":
        settings = item.get("settings")
        model = item.get("model") or (settings.get("model") if isinstance(settings, dict) else None)
        model = model if isinstance(model, str) else "unknown"
        folder = item.get("cwd") or item.get("working_directory")
        facts = scalars(item, "session_id", "claude_code_version", "apiKeySource", "permissionMode")
        shown = (
            ("Session", facts.get("session_id")),
            ("Model", model),
            ("Tools", ", ".join(names(item.get("tools") or item.get("allowed_tools")))),
            ("Working dir", folder if isinstance(folder, str) else None),
            ("Version", facts.get("claude_code_version")),
            ("Key from", facts.get("apiKeySource")),
        )
        body = "\n".join(f"{word}: {value}" for word, value in shown if value)
        return make(TraceKind.INIT, one_line(model), body, data={"model": model[:200], **facts})
    if name == "api_retry":
        facts = scalars(item, "attempt", "max_retries", "retry_delay_ms", "error_status", "error")
        delay = facts.get("retry_delay_ms")
        wait = f", waiting {delay / 1000:.1f} s" if isinstance(delay, int | float) and abs(delay) < 1e12 else ""
        title = f"attempt {facts.get('attempt', '?')} of {facts.get('max_retries', '?')}{wait}: " \
                f"{facts.get('error_status', '')} {facts.get('error', '')}".rstrip(" :")  # fmt: skip
        return make(TraceKind.RETRY, one_line(title), "", _WARNING, data=facts)
    return make(TraceKind.SYSTEM, one_line(name), pretty(rest), data={"subtype": name[:80]})


def _limit(make: EventMaker, rest: dict[str, Any]) -> TraceEvent:
    info = rest.get("rate_limit_info")
    info = info if isinstance(info, dict) else {}
    facts = scalars(info, "status", "resetsAt", "rateLimitType", "overageStatus", "isUsingOverage")
    status = str(facts.get("status", "unknown"))
    title = one_line(f"{facts.get('rateLimitType', 'rate limit')}: {status}")
    if status == "allowed":
        return make(TraceKind.SYSTEM, title, pretty(rest), data=facts)
    severity = _ERROR if status == "rejected" else _WARNING
    return make(TraceKind.LIMIT, title, pretty(rest), severity, data=facts)


def _failure(make: EventMaker, error: str, item: dict[str, Any], message: dict[str, Any]) -> TraceEvent:
    """What the CLI itself says in place of the model, with the field `error`."""
    facts = scalars(item, "error", "api_error_status", "api_error_type", "api_error")
    kind = TraceKind.LIMIT if error in _LIMITS else TraceKind.ERROR
    text = result_text(message.get("content")) or error
    message_id = message.get("id")
    message_id = message_id if isinstance(message_id, str) else ""
    return make.text(kind, text, _ERROR, data=facts, message_id=message_id)


def _result(make: EventMaker, item: dict[str, Any]) -> TraceEvent:
    facts = scalars(item, "subtype", "session_id", "is_error", "num_turns", "duration_ms", "terminal_reason",
                     "api_error_status")  # fmt: skip
    cost = next((item[key] for key in ("total_cost_usd", "total_cost", "cost_usd") if money(item.get(key)) is not None),
                None)  # fmt: skip
    subtype = str(facts.get("subtype", ""))
    failed = item.get("is_error") is True or subtype.startswith("error")
    text = item.get("result")
    errors = item.get("errors")
    parts = [text] if isinstance(text, str) and text else []
    parts += [pretty(errors)] if errors else []
    rest = {key: value for key, value in item.items() if key not in ("type", "result", "errors", "uuid")}
    title = one_line(f"{subtype or 'end'}{' (failed)' if failed else ''}: {parts[0]}" if parts else subtype or "end")
    body = "\n".join((*parts, pretty(rest)))
    severity = _ERROR if failed else _INFO
    return make(TraceKind.RESULT, title, body, severity, data=facts, usage=usage_of(item.get("usage"), cost))
