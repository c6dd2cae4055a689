from __future__ import annotations

import json

import pytest

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces import index
from tests.traces.samples import parse, stamped

K = TraceKind


def said(item: object) -> TraceEvent:
    (event,) = parse(json.dumps(item).encode(), "grok")
    return event


def test_a_whole_stream() -> None:
    events = parse(stamped("grok_stream.jsonl"), "grok")
    assert [event.kind for event in events] == [
        K.RAW, K.THINKING, K.TEXT, K.RAW, K.TEXT, K.SYSTEM, K.RESULT,
    ]  # fmt: skip
    assert (events[1].title, events[2].body) == ("First I look.", "I will list\nthe files.")
    assert events[5].data == {"unknown": "brand_new"}
    assert events[-1].data == {"session_id": "g-1", "stop_reason": "EndTurn"}
    assert events[-1].severity is Severity.INFO
    assert index.totals(events) == Usage(400, 80, 2000)


@pytest.mark.parametrize("reason", ["Cancelled", "cancelled", "Refusal"])
def test_a_session_that_was_cancelled(reason: str) -> None:
    end = said({"type": "end", "stopReason": reason})
    assert (end.kind, end.severity, end.data["is_error"]) == (K.RESULT, Severity.ERROR, True)


def test_errors() -> None:
    error = said({"type": "error", "message": "something broke"})
    assert (error.kind, error.title, error.data) == (K.ERROR, "something broke", {})
    limit = said({"type": "error", "error": {"message": "Too many. Try again in 5 minutes.", "code": 429}})
    assert (limit.kind, limit.data["error_status"], limit.data["retry_in_seconds"]) == (K.LIMIT, 429, 300)
    words = said({"type": "text", "data": "Rate limit reached, 429"})
    assert (words.kind, words.severity) == (K.TEXT, Severity.INFO)


def test_usage_where_the_cache_is_counted_apart() -> None:
    usage = {"input_tokens": 4, "cache_read_input_tokens": 20, "output_tokens": 3, "total_tokens": 27}
    assert said({"type": "end", "usage": usage, "total_cost_usd": 1.5}).usage == Usage(4, 3, 20, None, 1.5)
