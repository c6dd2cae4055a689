from __future__ import annotations

import json

import pytest

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces import index
from tests.traces.samples import parse, stamped

K = TraceKind


def sample(name: str) -> list[TraceEvent]:
    return parse(stamped(name), "gemini")


def said(*items: object) -> list[TraceEvent]:
    return parse("".join(json.dumps(item) + "\n" for item in items).encode(), "gemini")


def test_a_whole_stream() -> None:
    events = sample("gemini_stream.txt")
    assert [event.kind for event in events] == [
        K.RAW, K.RAW, K.INIT, K.USER, K.TEXT, K.TOOL_CALL, K.TOOL_RESULT, K.TOOL_CALL, K.TOOL_RESULT, K.ERROR, K.RETRY,
        K.RESULT,
    ]  # fmt: skip
    _, _, init, _, text, call, result, _, failed, loop, retry, end = events
    assert init.data == {"model": "gemini-example", "session_id": "s-1"}
    assert (text.title, text.data) == ("I will list the files.", {"pieces": 2})
    assert (call.tool, call.tool_id, call.title) == ("run_shell_command", "run_shell_command-1", "$ ls")
    assert (result.tool, result.title) == ("run_shell_command", "evaluate.py")
    assert (failed.title, failed.severity) == ("File not found", Severity.WARNING)
    assert (loop.title, loop.severity) == ("Loop detected, stopping execution", Severity.WARNING)
    assert retry.data == {"attempt": 1, "error_status": 429, "trouble": "rate_limit", "cause": "provider_limit"}
    assert end.usage == Usage(50, 200, 0) and end.data["session_id"] == "s-1"


def test_limits() -> None:
    events = sample("gemini.mid_usage.merged.txt")
    limit, end = events[-2:]
    assert (limit.kind, limit.severity) == (K.LIMIT, Severity.ERROR)
    assert limit.data == {"trouble": "quota", "cause": "provider_limit"}
    assert (end.kind, end.severity) == (K.RESULT, Severity.ERROR) and end.offset == limit.offset
    assert index.totals(events) == Usage(200, 40, 1000)
    assert sum(event.kind is K.RAW for event in events) == 27  # the stack and the warnings around it
    limit = sample("gemini.e429.jsonl")[-2]
    assert limit.data == {"trouble": "rate_limit", "cause": "provider_limit", "resetsAt": 1785574801}


def test_attempts_on_the_error_stream() -> None:
    retries = [event for event in sample("gemini.e429.stderr.txt") if event.kind is K.RETRY]
    assert [event.data["attempt"] for event in retries] == list(range(1, 11))
    assert {event.severity for event in retries} == {Severity.WARNING}
    (waiting,) = parse(b"Attempt 2 failed: busy. Retrying after 5735ms...\n", "gemini")
    assert waiting.data["retry_delay_ms"] == 5735


def test_a_bad_key_and_other_ends() -> None:
    end = sample("gemini.e401.jsonl")[-1]
    assert (end.kind, end.data["cause"], end.data["error_status"]) == (K.RESULT, "credential", 400)
    turns = sample("gemini_result_error.txt")[-1]
    assert turns.title == "error: Reached max session turns" and turns.data["error_type"] == "FatalTurnLimitedError"
    (plain,) = said({"type": "result", "status": "error", "error": "a string"})
    assert (plain.title, plain.severity) == ("error: a string", Severity.ERROR)


def test_a_command_that_failed_is_not_told() -> None:
    events = sample("gemini.toolfail.jsonl")
    (result,) = [event for event in events if event.kind is K.TOOL_RESULT]
    assert (result.severity, result.data) == (Severity.INFO, {}) and "ünï" in result.body
    assert index.totals(events) == Usage(400, 80, 2000)


def test_words_of_the_agent_raise_nothing() -> None:
    text = "[API Error: You have exhausted your daily quota]"
    events = said({"type": "message", "role": "assistant", "content": text, "delta": True},
                  {"type": "tool_result", "tool_id": "x", "status": "success", "output": text})  # fmt: skip
    assert [(event.kind, event.severity) for event in events] == [
        (K.TEXT, Severity.INFO), (K.TOOL_RESULT, Severity.INFO),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "title"), [(["a", {"type": "text", "text": "b"}], "a"), (None, ""), ({"x": 1}, "x: 1")]
)
def test_content_of_any_shape(content: object, title: str) -> None:
    (event,) = said({"type": "message", "role": "user", "content": content})
    assert (event.kind, event.title) == (K.USER, title)


def test_a_command_in_words() -> None:
    (call,) = said({"type": "tool_use", "tool_name": "sh", "tool_id": "t", "parameters": {"command": ["ls", "a b"]}})
    assert call.title == "$ ls 'a b'"


def test_the_log_of_calls() -> None:
    parts = [
        {"text": "hm", "thought": True, "thoughtSignature": "x"}, {"text": "hello"},
        {"functionCall": {"name": "sh", "args": {"command": "ls"}}},
        {"functionResponse": {"name": "sh", "response": {"output": "a"}}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, {"hologram": 1},
    ]  # fmt: skip
    counts = {"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 1}
    chunk = {"candidates": [{"content": {"parts": parts}}, 3], "usageMetadata": counts}
    events = said({"method": "generate", "response": [chunk]})
    assert [event.kind for event in events] == [
        K.THINKING, K.TEXT, K.TOOL_CALL, K.TOOL_RESULT, K.TEXT, K.SYSTEM, K.SYSTEM,
    ]  # fmt: skip
    assert events[2].title == "$ ls" and events[-1].usage == Usage(6, 3, 4)
    (error,) = said({"method": "generate", "response": None, "error": {"message": "no"}})
    assert (error.kind, error.title) == (K.ERROR, "no")
    (raw,) = said({"method": "generate"})
    assert raw.kind is K.RAW
