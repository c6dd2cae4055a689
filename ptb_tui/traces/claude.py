"""Claude Code's `--output-format stream-json` (H §3.2), as released from 2.0 to 2.1.

Severities and causes come from structured fields alone: an agent that prints "rate limit" raises nothing.
"""

from __future__ import annotations

from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.blocks import call_text, image_note, money, names, pretty, result_text
from ptb_tui.traces.jsonlines import Calls, Delta, EventMaker, JsonLinesParser, error_words, scalars
from ptb_tui.traces.plain import one_line
from ptb_tui.traces.refusals import LIMIT, MODEL, USAGE_LIMIT, by_status, by_type, by_words, join, known

_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
_TEXT, _USER, _THINKING = TraceKind.TEXT, TraceKind.USER, TraceKind.THINKING  # looked up once: these are hot
_TOOL_CALL, _TOOL_RESULT = TraceKind.TOOL_CALL, TraceKind.TOOL_RESULT
_LARGEST = 1 << 53
_PLAN_LIMITS = ("You've hit your ", "5-hour limit reached", "Weekly limit reached", "Opus weekly limit reached",
                "Claude AI usage limit reached")  # fmt: skip
_POLICY = "unable to respond to this request, which appears to violate"
_ENDED = frozenset(("completed", "failed", "stopped", "killed", "cancelled"))  # of a background task
_MISSING: dict[str, Any] = {}


def usage_of(value: object, cost: object = None) -> Usage | None:
    """Token counts of a `usage` object and a cost; None when neither says anything."""
    get = value.get if isinstance(value, dict) else _MISSING.get
    fresh, output = get("input_tokens"), get("output_tokens")
    read, written = get("cache_read_input_tokens"), get("cache_creation_input_tokens")
    fresh = fresh if type(fresh) is int and 0 <= fresh < _LARGEST else None  # as `count`, which this is too hot for
    output = output if type(output) is int and 0 <= output < _LARGEST else None
    read = read if type(read) is int and 0 <= read < _LARGEST else None
    written = written if type(written) is int and 0 <= written < _LARGEST else None
    paid = money(cost) if cost is not None else None
    if fresh is None and output is None and read is None and written is None and paid is None:
        return None
    return Usage(fresh, output, read, written, paid)


class ClaudeParser(JsonLinesParser):
    """TraceParser for stream-json. Several blocks of one line become several events with the same offset."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = Calls()
        self._refusal: dict[str, Any] = {}  # facts of the last failure, for the result that repeats it
        self._words: TraceEvent | None = None  # the agent's latest
        self._limit: dict[str, Any] = {}  # when the limit that was told before it ends

    def _object(self, make: EventMaker, kind: str, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        if kind == "assistant" or kind == "user":
            message = item.get("message")
            if isinstance(message, dict):
                return self._said(make, item, message) if kind == "assistant" else self._blocks(make, "user", message)
            text = pretty(message) if message is not None else pretty(item)
            return [make(TraceKind.SYSTEM, f"{kind}: a message of another shape", text, data={"unknown": kind})]
        if kind == "system":
            return [self._system(make, item)]
        if kind == "result":
            return self._result(make, item)
        rest = {key: value for key, value in item.items() if key != "type"}
        if kind == "rate_limit_event":
            return [self._rate_limit(make, rest)]
        if kind == "error":
            facts = join(*(by_type(item.get(name)) for name in ("code", "error")))
            return [make(TraceKind.ERROR, one_line(error_words(item)), pretty(rest), _ERROR, data=facts)]
        return [make.unknown(kind, rest)]

    def _said(self, make: EventMaker, item: dict[str, Any], message: dict[str, Any]) -> list[TraceEvent]:
        if isinstance(error := item.get("error"), str):
            return [self._failure(make, error, item, message)]
        events = self._blocks(make, "assistant", message)
        event = events[0]
        event.usage = usage_of(message.get("usage"))
        message_id = message.get("id")
        if isinstance(message_id, str):
            for event in events:
                event.message_id = message_id
        else:
            event = events[-1]
        parent = item.get("parent_tool_use_id")
        if isinstance(parent, str):
            for event in events:
                event.data = {**event.data, "parent": parent}
        elif event.kind is _TEXT:
            self._words = event
        if self._refusal:
            self._refusal = {}
        if message.get("stop_reason") == "refusal":
            events.append(make(TraceKind.ERROR, "the model refused to answer", "", _ERROR, data=known(MODEL)))
        return events

    def _blocks(self, make: EventMaker, role: str, message: dict[str, Any]) -> list[TraceEvent]:
        content = message.get("content")
        if not isinstance(content, list):
            return [self._block(make, role, content)]
        if len(content) == 1:
            return [self._block(make, role, content[0])]
        events = [self._block(make, role, block) for block in content]
        return events or [make(TraceKind.SYSTEM, f"{role}: an empty message", data={"empty": True})]

    def _block(self, make: EventMaker, role: str, block: object) -> TraceEvent:
        if isinstance(block, dict):
            kind = block.get("type")
            if kind == "tool_result":
                return self._tool_result(make, block)
            if kind == "tool_use":
                return self._call(make, block)
            said = _TEXT if role == "assistant" else _USER
            if kind == "text" and isinstance(text := block.get("text"), str):
                return make.text(said, text)
            if kind in ("thinking", "redacted_thinking"):
                thought = block.get("thinking")
                if isinstance(thought, str) and thought.strip():
                    return make.text(_THINKING, thought)
                return make(_THINKING, "thinking hidden", data={"hidden": True})
            if kind == "image":
                return make(said, image_note(block))
            rest = {key: value for key, value in block.items() if key != "type"}
            name = kind[:80] if isinstance(kind, str) else "block without a type"
            return make(TraceKind.SYSTEM, one_line(f"{role}: {name}"), pretty(rest), data={"unknown": name})
        said = _TEXT if role == "assistant" else _USER
        if isinstance(block, str):
            return make.text(said, block)
        return make(said, "null" if block is None else one_line(pretty(block)), data={"unknown": "block"})

    def _call(self, make: EventMaker, block: dict[str, Any]) -> TraceEvent:
        name, call_id, given = block.get("name"), block.get("id"), block.get("input")
        name = name if isinstance(name, str) else "tool"
        call_id = call_id if isinstance(call_id, str) else ""
        text = call_text(given)
        data = self._calls.begin(name, call_id, text)
        if isinstance(given, dict) and given.get("run_in_background") is True:
            self._background.begin(call_id)
        return make.text(_TOOL_CALL, text, data=data, tool=name, tool_id=call_id)

    def _tool_result(self, make: EventMaker, block: dict[str, Any]) -> TraceEvent:
        call_id, content = block.get("tool_use_id"), block.get("content")
        call_id = call_id if isinstance(call_id, str) else ""
        text = content if isinstance(content, str) else result_text(block.get("output") if content is None else content)
        tool = self._calls.name(call_id)
        if block.get("is_error") is not True:
            return make.text(_TOOL_RESULT, text, tool=tool, tool_id=call_id)
        self._background.end(call_id)
        return make.text(_TOOL_RESULT, text, _WARNING, data={"failed": True}, tool=tool, tool_id=call_id)

    def _system(self, make: EventMaker, item: dict[str, Any]) -> TraceEvent:
        task = item.get("tool_use_id")
        if isinstance(task, str):
            if item.get("subtype") == "task_started" and item.get("is_backgrounded") is True:
                self._background.begin(task)
            elif item.get("status") in _ENDED:
                self._background.end(task)
        return _system(make, item)

    def _rate_limit(self, make: EventMaker, rest: dict[str, Any]) -> TraceEvent:
        info = rest.get("rate_limit_info")
        info = info if isinstance(info, dict) else {}
        facts = scalars(info, "status", "resetsAt", "rateLimitType", "overageStatus", "isUsingOverage")
        status = str(facts.get("status", "unknown"))
        title = one_line(f"{facts.get('rateLimitType', 'rate limit')}: {status}")
        if status == "allowed":
            self._limit = {}
            return make(TraceKind.SYSTEM, title, pretty(rest), data=facts)
        if status != "rejected":
            return make(TraceKind.LIMIT, title, pretty(rest), _WARNING, data=facts)
        self._limit = {key: facts[key] for key in ("resetsAt",) if key in facts}
        return make(TraceKind.LIMIT, title, pretty(rest), _ERROR, data={**facts, **known(USAGE_LIMIT)})

    def _failure(self, make: EventMaker, error: str, item: dict[str, Any], message: dict[str, Any]) -> TraceEvent:
        """What the CLI itself says in place of the model, with the field `error`."""
        facts = scalars(item, "error", "api_error_status", "api_error_type", "api_error")
        text = result_text(message.get("content")) or error
        found = join(by_status(item.get("api_error_status")), *(by_type(item.get(name)) for name in
                     ("api_error_type", "error", "api_error")))  # fmt: skip
        if found.get("cause") == LIMIT:
            plan = text.replace("’", "'").startswith(_PLAN_LIMITS)
            found = {**found, **(known(USAGE_LIMIT) if plan else {}), **by_words(text, make.time), **self._limit}
        elif _POLICY in text[:2000]:
            found = {**found, **known(MODEL)}
        self._refusal = found
        kind = TraceKind.LIMIT if found.get("cause") == LIMIT else TraceKind.ERROR
        message_id = message.get("id")
        message_id = message_id if isinstance(message_id, str) else ""
        return make.text(kind, text, _ERROR, data={**facts, **found}, message_id=message_id)

    def _result(self, make: EventMaker, item: dict[str, Any]) -> list[TraceEvent]:
        end = _result(make, item)
        refusal, self._refusal = self._refusal, {}
        if end.severity is _ERROR:
            end.data = {**by_status(item.get("api_error_status")), **refusal, **end.data}
        elif item.get("stop_reason") == "refusal":
            end.data = {**end.data, **known(MODEL)}
        else:
            if self._words is not None:
                self._background.said(self._words.body or self._words.title)
                self._words = None
            return self._end_of_session(make, end)
        self._words = None
        self._background.at_end()
        return [end]


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
        return make(
            TraceKind.RETRY, one_line(title), "", _WARNING, data={**by_status(facts.get("error_status")), **facts}
        )
    return make(TraceKind.SYSTEM, one_line(name), pretty(rest), data={"subtype": name[:80]})


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
