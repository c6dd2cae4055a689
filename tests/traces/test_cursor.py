from __future__ import annotations

import json

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces import index
from tests.traces.samples import parse, stamped

K = TraceKind


def said(*items: object) -> list[TraceEvent]:
    return parse("".join(json.dumps(item) + "\n" for item in items).encode(), "cursor")


def test_a_whole_stream() -> None:
    events = parse(stamped("cursor_stream.jsonl"), "cursor")
    assert [event.kind for event in events] == [
        K.RAW, K.INIT, K.USER, K.THINKING, K.TEXT, K.TOOL_CALL, K.SYSTEM, K.RETRY, K.TOOL_RESULT, K.TOOL_CALL,
        K.TOOL_RESULT, K.TOOL_CALL, K.TOOL_RESULT, K.TEXT, K.SYSTEM, K.SYSTEM, K.RESULT,
    ]  # fmt: skip
    _, init, _, thought, _, call, blip, retry, result, _, failed, read, missing, text, *_, end = events
    assert init.data["model"] == "Example Model 5"
    assert (thought.title, thought.data) == ("a b", {"pieces": 3})
    assert (call.tool, call.tool_id, call.title) == ("shell", "call-1", "$ ls")
    assert blip.severity is retry.severity is Severity.WARNING and retry.data["attempt"] == 1
    assert (result.tool_id, result.title, result.data) == ("call-1", "evaluate.py", {"exit_code": 0})
    assert (failed.body, failed.severity) == ("exit code 2\noops", Severity.WARNING)
    assert (read.tool, read.title, missing.title) == ("read", "it's.txt", "File not found")
    assert text.body == "Done.\nReally."
    assert end.usage == Usage(400, 80, 2000, 0) == index.totals(events)


def test_text_that_is_no_object_is_shown() -> None:
    broken, call = said({"type": "assistant", "message": "{'role': open("}, {"type": "tool_call", "tool_call": "{'a'"})
    assert (broken.kind, broken.body) == (K.SYSTEM, "{'role': open(")
    assert call.data == {"unknown": "tool_call"} and "{'a'" in call.body


def test_wrappers_of_other_shapes() -> None:
    function = {"function": {"name": "search", "arguments": '{"q":1}'}}
    call, result = said({"type": "tool_call", "subtype": "completed", "call_id": "c", "tool_call": function})
    assert (call.tool, call.title, result.title) == ("search", '{"q":1}', "")
    for odd in ({}, {"x": 3}, {"shellToolCall": {"args": [], "result": {"rejected": {"reason": "no"}}}}):
        call, result = said({"type": "tool_call", "subtype": "completed", "tool_call": odd})
        assert (call.kind, result.kind) == (K.TOOL_CALL, K.TOOL_RESULT)
    assert (result.title, result.severity) == ("rejected: reason: no", Severity.WARNING)
