from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from tests.traces.samples import DATA, STAMP, parse, stamped

K = TraceKind
CLAUDE = sorted(path.name for path in DATA.iterdir() if path.name.startswith("claude"))


def one(item: object) -> TraceEvent:
    (event,) = parse(json.dumps(item).encode() + b"\n")
    return event


def test_a_whole_stream() -> None:
    events = parse(stamped("claude_stream_2.1.jsonl"))
    assert [event.kind for event in events] == [
        K.INIT, K.THINKING, K.TEXT, K.TOOL_CALL, K.TOOL_RESULT, K.RETRY, K.TOOL_CALL, K.TOOL_RESULT, K.USER, K.SYSTEM,
        K.TEXT, K.ERROR, K.RESULT,
    ]  # fmt: skip
    init, _, text, call, result, retry, *_, boundary, sub, left, end = events
    assert init.title == "claude-example-9[1m]"
    assert "Model: claude-example-9[1m]" in init.body and "Tools: Task, Bash" in init.body
    assert text.message_id == "msg_01A" and text.usage == Usage(3, 88, 11264, 5120)
    assert (call.tool, call.tool_id, call.title) == ("Bash", "toolu_01B", "$ ls -la && bash timer.sh")
    assert (result.tool, result.tool_id) == ("Bash", "toolu_01B")
    assert "Remaining: 9:58" in result.body
    assert retry.severity is Severity.WARNING
    assert retry.data == {"attempt": 1, "max_retries": 10, "retry_delay_ms": 1200, "error_status": 529,
                          "trouble": "server"}  # fmt: skip
    assert boundary.title == "compact_boundary" and "pre_tokens: 168000" in boundary.body
    assert sub.data["parent"] == "toolu_01X"
    assert (left.title, left.severity) == ("ended while 1 background task was running", Severity.WARNING)
    assert left.data == {"trouble": "background", "open_tasks": 1} and end.data["trouble"] == "background"
    assert end.usage is not None and end.usage.cost_usd == 3.4172
    assert end.severity is Severity.INFO
    assert {event.time for event in events} == {STAMP}


def test_limits_come_from_fields() -> None:
    events = parse(stamped("claude_limit_2.1.jsonl"))
    limits = [event for event in events if event.kind is K.LIMIT]
    assert [event.severity for event in limits] == [Severity.ERROR, Severity.ERROR]
    assert limits[0].data["resetsAt"] == 1785570600
    assert events[-1].kind is K.RESULT and events[-1].severity is Severity.ERROR  # subtype "success", is_error true
    said = {"role": "user", "content": [{"type": "text", "text": "You've hit your session limit, API Error: 429"}]}
    assert one({"type": "user", "message": said}).severity is Severity.INFO
    assert one({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}).kind is K.SYSTEM


def test_a_failure_names_its_cause() -> None:
    limit, said, end = parse(stamped("claude_limit_2.1.jsonl"))[-3:]
    assert limit.data["trouble"] == said.data["trouble"] == end.data["trouble"] == "usage_limit"
    assert said.data["cause"] == end.data["cause"] == "provider_limit" and end.data["resetsAt"] == 1785570600
    policy = "API Error: Claude Code is unable to respond to this request, which appears to violate our Usage Policy"
    text = {"content": [{"type": "text", "text": policy}]}
    refused = one({"type": "assistant", "error": "invalid_request", "message": text})
    assert (refused.kind, refused.data["cause"]) == (K.ERROR, "model_refusal")
    said_by_agent = one({"type": "assistant", "message": text})
    assert (said_by_agent.kind, said_by_agent.data) == (K.TEXT, {})


def test_the_model_may_refuse() -> None:
    message = {"content": [{"type": "text", "text": "I cannot help."}], "stop_reason": "refusal"}
    text, refused = parse(json.dumps({"type": "assistant", "message": message}).encode())
    assert (text.kind, refused.kind, refused.data["trouble"]) == (K.TEXT, K.ERROR, "model_refusal")
    end = one({"type": "result", "subtype": "success", "stop_reason": "refusal"})
    assert (end.severity, end.data["trouble"]) == (Severity.INFO, "model_refusal")


def test_a_failure_that_was_overcome_is_not_the_end() -> None:
    failed = {"type": "assistant", "error": "rate_limit", "message": {"content": "You've hit your limit"}}
    said = {"type": "assistant", "message": {"content": "On I go."}}
    for items, cause in (((failed, said), None), ((failed,), "provider_limit")):
        lines = [*items, {"type": "result", "subtype": "error_during_execution", "is_error": True}]
        assert parse("\n".join(map(json.dumps, lines)).encode())[-1].data.get("cause") == cause


def test_retries_to_the_end() -> None:
    events = parse(stamped("claude.e500.defretry.jsonl"))
    retries = [event for event in events if event.kind is K.RETRY]
    assert len(retries) == 10 and retries[-1].data["retry_delay_ms"] == 33985
    assert events[-2].kind is K.ERROR and events[-1].severity is Severity.ERROR


def test_text_beside_the_json_is_kept() -> None:
    events = parse(stamped("claude.merged.txt"))
    assert any(event.kind is K.RAW and event.title.startswith("[claude-code:") for event in events)


def test_a_failed_tool_is_a_warning() -> None:
    (result,) = [event for event in parse(stamped("claude.toolfail.jsonl")) if event.kind is K.TOOL_RESULT]
    assert result.severity is Severity.WARNING and result.tool == "Bash" and "ünï" in result.body


def test_a_torn_tail_is_raw() -> None:
    last = parse(stamped("claude_truncated_tail.jsonl"))[-1]
    assert last.kind is K.RAW and last.data["reason"].startswith("not JSON")


def test_result_variants() -> None:
    events = parse(stamped("claude_result_variants.jsonl"))
    assert [event.severity for event in events] == [Severity.ERROR, Severity.ERROR, Severity.INFO]
    assert [event.usage and event.usage.cost_usd for event in events] == [3.4172, 3.4172, 0.5]
    assert "socket hang up" in events[1].body


def test_hostile_lines_all_give_something() -> None:
    data = stamped("hostile_trace.txt")
    events = parse(data)
    offsets = {event.offset for event in events}
    lines = data.split(b"\n")
    starts = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines))]
    assert offsets == set(starts)
    assert sum(event.data.get("reason") == "JSON, but not an object" for event in events) == 2
    assert any(event.kind is K.RAW and "reason" in event.data and event.title == '{"type":"assistant"'
               for event in events)  # fmt: skip


@pytest.mark.parametrize("content", ["plain text", ["plain text"]])
def test_content_may_be_a_string(content: object) -> None:
    event = one({"type": "user", "message": {"role": "user", "content": content}})
    assert (event.kind, event.title) == (K.USER, "plain text")


def test_two_objects_on_a_line() -> None:
    first = {"type": "user", "message": {"content": "a"}}
    second = {"type": "user", "message": {"content": "b"}}
    events = parse((json.dumps(first) + json.dumps(second) + " and {text\n").encode())
    assert [event.title for event in events] == ["a", "b", "and {text"]
    assert events[2].data == {"reason": "text after a JSON object"}
    assert len({(event.offset, event.length) for event in events}) == 1


def test_hidden_thinking() -> None:
    for block in ({"type": "thinking", "thinking": "", "signature": "x"}, {"type": "redacted_thinking", "data": "x"}):
        event = one({"type": "assistant", "message": {"content": [block]}})
        assert (event.kind, event.title, event.data) == (K.THINKING, "thinking hidden", {"hidden": True})


def test_unknown_types_are_kept() -> None:
    event = one({"type": "brand_new", "payload": {"deep": [1, {"x": "line\nbreak"}]}})
    assert (event.kind, event.title, event.data) == (K.SYSTEM, "brand_new", {"unknown": "brand_new"})
    assert "deep:" in event.body and "break" in event.body
    block = one({"type": "assistant", "message": {"content": [{"type": "hologram", "x": 1}]}})
    assert block.data == {"unknown": "hologram"}


def test_bad_unicode_inside_json() -> None:
    (event,) = parse(b'{"type":"user","message":{"content":"a \\ud83d b \xff c \\ud83d\\ude00 \\\\ud83d"}}\n')
    assert event.title == "a � b � c 😀 \\ud83d"


def test_a_long_line_is_read_in_part() -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": "y" * 3_000_000}
    line = json.dumps({"type": "user", "message": {"content": [block]}}).encode()
    event, after = parse(line + b"\n" + b"after\n")
    assert event.kind is K.TOOL_RESULT and event.length == len(line) and event.data["cut"] == 1 << 20
    assert after.title == "after"


def test_a_picture_is_named_not_shown() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 4000}
    block = {"type": "tool_result", "content": [{"type": "image", "source": source}]}
    assert one({"type": "user", "message": {"content": [block]}}).title == "[image image/png, 3,000 bytes]"


def test_repeated_calls_are_counted() -> None:
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "sleep 1"}}
    events = parse((json.dumps({"type": "assistant", "message": {"content": [call]}}) + "\n").encode() * 3)
    assert [event.data.get("repeats", 0) for event in events] == [0, 1, 2]


@pytest.mark.parametrize("usage", [None, [], {"input_tokens": "12"}, {"input_tokens": True}, {"input_tokens": -1}])
def test_odd_usage_is_unknown(usage: object) -> None:
    assert one({"type": "assistant", "message": {"content": "x", "usage": usage}}).usage is None
    assert one({"type": "result", "total_cost_usd": float("nan"), "usage": usage}).usage is None


def test_deep_nesting_does_not_break() -> None:
    for depth in (150, 2_000, 100_000):
        data = b'{"type":"assistant","x":' + b"[" * depth + b"]" * depth + b"}\n"
        assert len(parse(data)) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["assistant", "user", "system", "result", "rate_limit_event", "error", "init", "x", ""])


def shaped(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["message", "content", "type", "subtype", "usage", "error", "text", "thinking", "id", "name",
                            "input", "tool_use_id", "rate_limit_info", "status", "result", "total_cost_usd", "model",
                            "tools", "settings", "retry_delay_ms", "source", "data", "errors", "is_error"])  # fmt: skip
    return st.dictionaries(keys, NAMES | inner | st.lists(inner, max_size=2), max_size=5)


@settings(max_examples=150, deadline=None)
@given(st.recursive(JSON, shaped, max_leaves=12), NAMES, st.lists(st.integers(0, 2000), max_size=4))
def test_any_json_gives_an_event(value: Any, kind: str, cuts: list[int]) -> None:
    item = {**value, "type": kind} if isinstance(value, dict) else value
    data = (json.dumps(item) + "\n").encode("utf-8", "replace") * 2
    events = parse(data, cuts=cuts)
    assert {event.offset for event in events} == {0, len(data) // 2}
    assert repr(events) == repr(parse(data))  # NaN is not equal to itself
    for event in events:
        assert "\n" not in event.title
        assert repr(TraceEvent.from_wire(event.to_wire())) == repr(event)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CLAUDE), st.lists(st.integers(0, 40_000), max_size=8), st.binary(max_size=4), st.integers(0))
def test_samples_damaged_and_split_anyhow(name: str, cuts: list[int], junk: bytes, where: int) -> None:
    data = stamped(name)
    where %= len(data)
    data = data[:where] + junk + data[where:]
    events = parse(data, cuts=cuts)
    assert events == parse(data)
    assert {data[event.offset : event.offset + event.length] for event in events} == {
        line for line in data.split(b"\n") if line
    }
