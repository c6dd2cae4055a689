from __future__ import annotations

import json

import pytest

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces import index
from tests.traces.samples import parse, stamped

K = TraceKind


def sample(name: str) -> list[TraceEvent]:
    return parse(stamped(name), "opencode")


def said(*items: object) -> list[TraceEvent]:
    return parse("".join(json.dumps(item) + "\n" for item in items).encode(), "opencode")


def test_a_whole_stream() -> None:
    events = sample("opencode_run.jsonl")
    assert [event.kind for event in events] == [
        K.INIT, K.TOOL_CALL, K.TOOL_RESULT, K.TOOL_CALL, K.TOOL_RESULT, K.SYSTEM, K.TEXT, K.SYSTEM,
    ]  # fmt: skip
    init, call, result, _, failed, step, text, _ = events
    assert init.data == {"session_id": "ses_00000000000example"}
    assert (call.tool, call.tool_id, call.title, call.offset) == ("bash", "call_1", "$ ls", result.offset)
    assert (result.title, result.data) == ("evaluate.py", {"exit_code": 0})
    assert (failed.title, failed.severity) == ("Error: File not found: x", Severity.WARNING)
    assert step.title == "step finished: tool-calls" and step.usage == Usage(120, 40, 9000, 100, 0.0012)
    assert text.message_id == "msg_00000000000example"
    assert index.totals(events) == Usage(120, 40, 9000, 100, 0.0012)


def test_a_recorded_run() -> None:
    events = sample("opencode.jsonl")
    assert [event.kind for event in events].count(K.INIT) == 1
    assert index.totals(events) == Usage(400, 80, 2000, 0, 0.0)


def test_errors_say_what_the_provider_said() -> None:
    (limit,) = sample("opencode.e429.jsonl")
    assert (limit.kind, limit.severity) == (K.LIMIT, Severity.ERROR)
    assert limit.data["error_status"] == 429 and limit.data["resetsAt"] == 1785574801
    (key,) = sample("opencode.e401.jsonl")
    assert (key.kind, key.data["cause"], key.data["error_type"]) == (K.ERROR, "credential", "invalid_api_key")
    quota = sample("opencode.mid_usage.jsonl")[-1]
    assert (quota.kind, quota.data["error_type"]) == (K.LIMIT, "insufficient_quota")
    _, monthly, plain, unknown = sample("opencode_run_error.jsonl")
    assert (monthly.kind, monthly.title) == (K.LIMIT, "Monthly limit reached")
    assert [(event.kind, event.title) for event in (plain, unknown)] == [
        (K.ERROR, "plain string error"), (K.ERROR, "UnknownError"),
    ]  # fmt: skip


def test_a_failed_command() -> None:
    state = {"status": "completed", "input": {"command": "false"}, "output": "oops", "metadata": {"exit": 3}}
    part = {"type": "tool", "callID": "c", "tool": "bash", "state": state}
    _, result = said({"type": "tool_use", "part": part})
    assert (result.body, result.severity) == ("exit code 3\noops", Severity.WARNING)


def test_a_call_that_is_told_twice_is_one_call() -> None:
    state = {"status": "running", "input": {"command": "ls"}}
    part = {"type": "tool", "callID": "c", "tool": "bash", "state": state}
    done = {**part, "state": {**state, "status": "completed", "output": "a"}}
    events = said({"type": "tool_use", "part": part}, {"type": "tool_use", "part": done})
    assert [event.kind for event in events] == [K.TOOL_CALL, K.TOOL_RESULT]


@pytest.mark.parametrize("part", [None, [], "x", 3])
def test_parts_of_another_shape_are_kept(part: object) -> None:
    (event,) = said({"type": "text", "part": part})
    assert (event.kind, event.data) == (K.SYSTEM, {"unknown": "text"})


def test_reasoning_is_output() -> None:
    tokens = {"total": 19, "input": 3, "output": 4, "reasoning": 5, "cache": {"read": 7, "write": 0}}
    (step,) = said({"type": "step_finish", "part": {"tokens": tokens, "cost": "x"}})
    assert step.usage == Usage(3, 9, 7, 0)
    (step,) = said({"type": "step_finish", "part": {"tokens": {**tokens, "total": 14}}})
    assert step.usage == Usage(3, 4, 7, 0)
    (thought,) = said({"type": "reasoning", "part": {"text": "hm"}})
    assert thought.kind is K.THINKING
