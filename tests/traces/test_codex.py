from __future__ import annotations

import json

import pytest

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces import index
from tests.traces.samples import parse, stamped

K = TraceKind


def sample(name: str) -> list[TraceEvent]:
    return parse(stamped(name), "codex")


def said(*items: object) -> list[TraceEvent]:
    return parse("".join(json.dumps(item) + "\n" for item in items).encode(), "codex")


def test_a_whole_stream() -> None:
    events = sample("codex_exec_0.144.jsonl")
    assert [event.kind for event in events] == [
        K.INIT, K.SYSTEM, K.THINKING, K.TOOL_CALL, K.SYSTEM, K.TOOL_RESULT, K.TOOL_CALL, K.TOOL_RESULT, K.TOOL_CALL,
        K.TOOL_RESULT, K.TOOL_CALL, K.TOOL_RESULT, K.SYSTEM, K.TEXT, K.RESULT,
    ]  # fmt: skip
    init, _, _, call, todo, result, *others, warned, text, end = events
    assert init.data == {"session_id": "0198aaaa-bbbb-7ccc-8ddd-eeeeffff0001"}
    assert (call.tool, call.tool_id, call.title) == ("shell", "item_1", "$ bash -lc 'python evaluate.py --limit 20'")
    assert (result.tool_id, result.title, result.data) == ("item_1", "accuracy: 0.15", {"exit_code": 0})
    assert (todo.title, todo.body) == ("to do: 1 of 2 done", "[x] baseline\n[ ] train")
    assert [(event.tool, event.title) for event in others] == [
        ("apply_patch", "add /home/ben/task/train.py"), ("apply_patch", "completed"), ("demo.ping", "{}"),
        ("demo.ping", "failed"), ("web_search", "search: sft recipe small model"), ("web_search", "completed"),
    ]  # fmt: skip
    assert others[3].severity is Severity.WARNING
    assert warned.severity is Severity.WARNING and text.message_id == "item_7"
    assert end.usage == Usage(111844, 21880, 700160)


def test_a_good_run_has_no_error() -> None:
    events = sample("codex.merged.txt")
    assert events[0].kind is K.RAW
    assert not [event for event in events if event.severity is Severity.ERROR or event.kind is K.ERROR]
    assert index.totals(events) == Usage(400, 80, 2000, 0)


def test_a_failed_command_shows_its_exit_code() -> None:
    (result,) = [event for event in sample("codex.toolfail.jsonl") if event.kind is K.TOOL_RESULT]
    assert result.data == {"exit_code": 3, "failed": True} and result.severity is Severity.WARNING
    assert result.body == "exit code 3\nline1\nline2 ünï\noops\n"


def test_limits_and_their_ends() -> None:
    plan = sample("codex.usage_plan.jsonl")[-2:]
    assert [event.kind for event in plan] == [K.LIMIT, K.RESULT]
    assert plan[0].data == {
        "trouble": "usage_limit", "cause": "provider_limit", "resets": "4:50 PM", "resets_clock": "16:50",
    }  # fmt: skip
    assert plan[1].data["is_error"] is True and plan[1].severity is Severity.ERROR
    quota = sample("codex.mid_usage.jsonl")[-2]
    assert quota.kind is K.LIMIT and quota.data == {"trouble": "quota", "cause": "provider_limit"}
    rate = sample("codex.e429.jsonl")
    assert [event.kind for event in rate[-4:]] == [K.RETRY, K.RETRY, K.LIMIT, K.RESULT]
    assert rate[-2].data == {"error_status": 429, "trouble": "rate_limit", "cause": "provider_limit"}
    events = sample("codex_limit_and_auth.jsonl")
    assert [event.data["resetsAt"] for event in events if event.kind is K.LIMIT] == [1785574800 + 234_840, 1785570600]


def test_sign_in() -> None:
    events = sample("codex.e401.jsonl")
    retries = [event for event in events if event.kind is K.RETRY]
    assert [event.data["attempt"] for event in retries] == [1, 2] and retries[0].severity is Severity.WARNING
    assert events[-1].data["cause"] == events[-2].data["cause"] == "credential" and events[-2].kind is K.ERROR
    refresh = sample("codex_limit_and_auth.jsonl")[-2]
    assert refresh.kind is K.RESULT and refresh.data["cause"] == "credential"
    (missing,) = said({"type": "error", "message": "Missing environment variable: `CODEX_API_KEY`."})
    assert (missing.kind, missing.data) == (K.ERROR, {"trouble": "login", "cause": "credential"})


def test_waiting_for_the_network_is_a_retry() -> None:
    events = sample("codex.refused.jsonl")
    assert [event.data for event in events if event.kind is K.RETRY] == [{"network": False, "trouble": "network"}] * 4


@pytest.mark.parametrize("kind", ["agent_message", "reasoning"])
def test_words_of_the_agent_raise_nothing(kind: str) -> None:
    text = "You've hit your usage limit. Try again at 4:50 PM."
    (event,) = said({"type": "item.completed", "item": {"id": "i", "type": kind, "text": text}})
    assert (event.severity, event.data, event.title) == (Severity.INFO, {}, text)
    output = {"id": "j", "type": "command_execution", "command": "cat x", "aggregated_output": text, "exit_code": 0}
    assert {event.severity for event in said({"type": "item.completed", "item": output})} == {Severity.INFO}


def test_names_of_0_44() -> None:
    init, event = said(
        {"type": "session.created", "session_id": "s"},
        {"type": "item.completed", "item": {"id": "item_0", "item_type": "assistant_message", "text": "hello"}},
    )
    assert (init.kind, init.data) == (K.INIT, {"session_id": "s"})
    assert (event.kind, event.title) == (K.TEXT, "hello")


def test_item_ids_begin_again_with_each_thread() -> None:
    def turn(output: str) -> list[object]:
        item = {"id": "item_0", "type": "command_execution", "command": "ls", "exit_code": None}
        done = {**item, "exit_code": 0, "aggregated_output": output}
        usage = {"input_tokens": 10, "output_tokens": 1}
        return [
            {"type": "thread.started", "thread_id": output},
            {"type": "item.started", "item": item},
            {"type": "item.completed", "item": done},
            {"type": "turn.completed", "usage": usage},
        ]

    events = said(*turn("a"), *turn("b"))
    kinds = [K.INIT, K.TOOL_CALL, K.TOOL_RESULT, K.RESULT]
    assert [event.kind for event in events] == kinds * 2
    assert index.totals(events) == Usage(20, 2)  # two threads
    assert index.totals(said(*turn("a"), *turn("a"))) == Usage(10, 1)  # one, which counts all of its turns


def test_unknown_items_are_kept() -> None:
    one, two, three = said(
        {"type": "item.completed", "item": {"id": "i", "type": "hologram", "x": {"y": 1}}},
        {"type": "brand.new", "x": 1},
        {"type": "item.completed", "item": None},
    )
    assert one.data == {"unknown": "hologram (completed)"} and "y: 1" in one.body
    assert (two.data, three.data) == ({"unknown": "brand.new"}, {"unknown": "item.completed"})


def test_mcp_results_and_errors() -> None:
    item = {
        "id": "i",
        "type": "mcp_tool_call",
        "server": "s",
        "tool": "t",
        "arguments": {"a": 1},
        "status": "completed",
    }
    content = {"content": [{"type": "text", "text": "found"}], "structured_content": None}
    call, result = said({"type": "item.completed", "item": {**item, "result": content}})
    assert (call.tool, call.title, result.title) == ("s.t", "a: 1", "found")
    _, failed = said(
        {"type": "item.completed", "item": {**item, "status": "failed", "error": {"message": "no server"}}}
    )
    assert (failed.title, failed.severity) == ("no server", Severity.WARNING)


def test_before_0_44() -> None:
    events = sample("codex_exec_legacy_pre0.44.jsonl")
    assert [event.kind for event in events] == [
        K.INIT, K.USER, K.SYSTEM, K.THINKING, K.TOOL_CALL, K.TOOL_RESULT, K.SYSTEM, K.TEXT, K.RESULT,
    ]  # fmt: skip
    assert events[0].data == {"model": "gpt-example"}
    assert (events[4].tool, events[4].tool_id, events[4].title) == ("shell", "c1", "$ bash -lc ls")
    assert events[5].data == {"exit_code": 0}
    assert index.totals(events) == Usage(10, 5, 0)


def legacy(kind: str, **fields: object) -> dict[str, object]:
    return {"id": "0", "msg": {"type": kind, **fields}}


def test_older_objects() -> None:
    def tokens(count: int) -> dict[str, object]:
        return legacy("token_count", info={"total_token_usage": {"input_tokens": count, "output_tokens": 1}})

    events = said(
        legacy("session_configured", session_id="a", model="m"), tokens(5), tokens(9), tokens(9),
        legacy("session_configured", session_id="b", model="m"), tokens(4),
    )  # fmt: skip
    assert index.totals(events) == Usage(13, 2)
    thought, text = said(
        legacy("agent_reasoning_delta", delta="a"), legacy("agent_reasoning_delta", delta="b"),
        legacy("agent_message_delta", delta="c"),
    )  # fmt: skip
    assert (thought.kind, thought.title, text.title) == (K.THINKING, "ab", "c")
    aborted, limit, stream, patch, mcp, new = said(
        legacy("turn_aborted", reason="interrupted"),
        legacy("error", message="You've hit your usage limit. Try again in 5 minutes."),
        legacy("stream_error", message="stream error: retrying 1/5"),
        legacy("patch_apply_end", call_id="p", success=False, stderr="no such file"),
        legacy("mcp_tool_call_begin", call_id="q", invocation={"server": "s", "tool": "t", "arguments": {}}),
        legacy("hologram", x=1),
    )
    assert (aborted.kind, aborted.severity, aborted.title) == (K.RESULT, Severity.ERROR, "turn_aborted: interrupted")
    assert (limit.kind, limit.data["retry_in_seconds"]) == (K.LIMIT, 300)
    assert stream.kind is K.RETRY
    assert (patch.tool, patch.severity) == ("patch_apply", Severity.WARNING)
    assert (mcp.kind, mcp.tool, mcp.tool_id) == (K.TOOL_CALL, "s.t", "q")
    assert new.data == {"unknown": "hologram"}
    raw, other = said({"hello": 1}, {"prompt": "a", "b": 1})
    assert raw.data["reason"] == other.data["reason"] == "a JSON object without a type"


def test_text_mode() -> None:
    events = sample("codex_text_mode.txt")
    assert [event.title for event in events if event.kind is K.INIT] == ["gpt-example"]
    assert (events[-1].kind, events[-1].data) == (K.RESULT, {"total_tokens": 19542})
    assert {event.kind for event in events} == {K.RAW, K.INIT, K.RESULT}


def test_text_that_only_looks_like_text_mode() -> None:
    assert {event.kind for event in parse(b"tokens used\n19,542\nmodel: x\n", "codex")} == {K.RAW}
    head = b"OpenAI Codex v1\n--------\nmodel: a\n--------\n"
    assert [event.kind for event in parse(head + b"model: b\ntokens used\nmany\n", "codex")].count(K.INIT) == 1
    with_json = parse(b'{"type":"thread.started"}\n' + head + b"tokens used\n1\n", "codex")
    assert {event.kind for event in with_json[1:]} == {K.RAW}
