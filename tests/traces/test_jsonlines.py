"""What all families promise: every line kept, the same events for any split, nothing that brings a parser down."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.core.trace import TraceEvent, TraceKind
from ptb_tui.traces import FAMILIES, parser_for
from ptb_tui.traces.jsonlines import Calls
from ptb_tui.traces.pages import pages_for, write
from tests.traces.samples import DATA, parse, stamped

FAMILY = {
    path.name: family
    for path in sorted(DATA.iterdir())
    for family in FAMILIES
    if path.name.startswith((f"{family}.", f"{family}_"))
}
ODD = ("hostile_trace.txt", "ptb_solve_out_cuda_fail.txt", "codex_exec_legacy_pre0.44.jsonl", "claude_stream_2.1.jsonl")
JSON_FAMILIES = sorted(set(FAMILIES) - {"plain"})


def check_coverage(data: bytes, events: list[TraceEvent]) -> None:
    """Every line lies in an event, every event consists of whole lines, in order."""
    lines, position = [], 0
    for line in data.split(b"\n"):
        lines.append((position, position + len(line)))
        position += len(line) + 1
    if data.endswith(b"\n") or not data:
        lines.pop()
    spans = [(event.offset, event.offset + event.length) for event in events]
    assert spans == sorted(spans)
    starts, ends = {start for start, _ in lines}, {end for _, end in lines}
    assert all(start in starts and end in ends for start, end in spans)
    covered, reached = sorted(set(spans)), 0
    for start, end in lines:
        while reached < len(covered) and covered[reached][1] < end:
            reached += 1
        assert reached < len(covered) and covered[reached][0] <= start, data[start:end]


@pytest.mark.parametrize("family", JSON_FAMILIES)
@pytest.mark.parametrize("name", sorted(FAMILY) + list(ODD))
def test_every_line_of_every_sample_is_kept(family: str, name: str) -> None:
    data = stamped(name)
    events = parse(data, family)
    check_coverage(data, events)
    for event in events:
        assert "\n" not in event.title
        assert TraceEvent.from_wire(json.loads(json.dumps(event.to_wire()))) == event


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(FAMILY.items())), st.lists(st.integers(0, 40_000), max_size=8),
       st.binary(max_size=4), st.integers(0))  # fmt: skip
def test_samples_damaged_and_split_anyhow(sample: tuple[str, str], cuts: list[int], junk: bytes, where: int) -> None:
    name, family = sample
    data = stamped(name)
    where %= len(data)
    data = data[:where] + junk + data[where:]
    events = parse(data, family, cuts)
    assert events == parse(data, family)
    check_coverage(data, events)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(FAMILY.items())), st.integers(0), st.lists(st.integers(0, 40_000), max_size=4))
def test_what_was_written_so_far_depends_on_the_bytes_alone(
    sample: tuple[str, str], where: int, cuts: list[int]
) -> None:
    name, family = sample
    data = stamped(name)
    beginning = data[: where % (len(data) + 1)]
    pages, again = pages_for(family), pages_for(family)
    first = pages.feed(beginning)
    edges = [0, *sorted(cut % (len(beginning) + 1) for cut in cuts), len(beginning)]
    parts = [again.feed(beginning[a:b]) for a, b in pairwise(edges)]
    assert first == (b"".join(text for text, _ in parts), b"".join(rows for _, rows in parts))
    rest = data[len(beginning) :]
    tail = [again.feed(rest), again.close()]
    whole = (first[0] + tail[0][0] + tail[1][0], first[1] + tail[0][1] + tail[1][1])
    assert whole == write(parse(data, family))


KINDS = [
    "assistant", "user", "system", "result", "error", "thread.started", "turn.completed", "turn.failed",
    "item.started", "item.completed", "item.updated", "command_execution", "agent_message", "reasoning", "todo_list",
    "file_change", "web_search", "mcp_tool_call", "init", "message", "tool_use", "tool_result", "step_start", "text",
    "step_finish", "thinking", "tool_call", "retry", "connection", "interaction_query", "thought", "end",
    "agent_message_delta", "exec_command_begin", "exec_command_end", "token_count", "session_configured", "started",
    "completed", "delta", "", "x",
]  # fmt: skip
KEYS = [
    "type", "subtype", "item", "item_type", "msg", "message", "content", "id", "text", "data", "error", "status",
    "command", "exit_code", "aggregated_output", "items", "changes", "result", "usage", "input_tokens", "code",
    "cached_input_tokens", "output_tokens", "part", "state", "input", "output", "tool", "callID", "metadata", "exit",
    "tokens", "cache", "cost", "total", "reasoning", "statusCode", "responseHeaders", "responseBody", "retry-after",
    "role", "delta", "tool_name", "tool_id", "parameters", "stats", "response", "candidates", "parts", "functionCall",
    "usageMetadata", "tool_call", "call_id", "shellToolCall", "args", "success", "model", "workdir", "prompt", "info",
    "thread_id", "session_id", "sessionID", "stopReason", "resets_at", "resets_in_seconds", "details", "reason",
]  # fmt: skip
WORDS = st.sampled_from([
    *KINDS, "running", "failed", "error", "429", "Reconnecting... 1/5 (x)",
    "You’ve hit your usage limit. try again at 9",
    "[API Error: {\"error\":{\"code\":429}}]", "{'a': [1, None], \"b\": 'it\\'s'}", "try again in 99999 days", "a\nb",
])  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(JSON_FAMILIES), st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6),
       st.none() | st.sampled_from(KINDS), st.lists(st.integers(0, 2000), max_size=4))  # fmt: skip
def test_any_json_gives_an_event(family: str, item: dict[str, Any], kind: str | None, cuts: list[int]) -> None:
    item = {**item, "type": kind} if kind is not None else item
    if isinstance(item.get("msg"), dict) and kind is not None:
        item = {**item, "msg": {**item["msg"], "type": kind}, "type": None}
    data = (json.dumps(item) + "\n").encode("utf-8", "replace") * 2 + b"\n[1]\nend"
    events = parse(data, family, cuts)
    check_coverage(data, events)
    assert repr(events) == repr(parse(data, family))  # NaN is not equal to itself
    for event in events:
        assert "\n" not in event.title
        assert repr(TraceEvent.from_wire(event.to_wire())) == repr(event)
    write(events)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(JSON_FAMILIES), st.binary(max_size=120), st.lists(st.integers(0, 200), max_size=4))
def test_any_bytes(family: str, data: bytes, cuts: list[int]) -> None:
    data = data.replace(b"\x01", b"\n").replace(b"\x02", b'{"type":"')
    events = parse(data, family, cuts)
    assert events == parse(data, family)
    check_coverage(data, events)


@pytest.mark.parametrize("family", JSON_FAMILIES)
def test_deep_and_long_lines(family: str) -> None:
    deep = b'{"type":"item.completed","item":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n"
    long = json.dumps({"type": "text", "data": "y" * 3_000_000, "part": {"text": "z"}}).encode() + b"\n"
    data = deep + long + b"after\n"
    events = parse(data, family)
    check_coverage(data, events)
    assert events[-1].title == "after" and events[1].data["cut"] == 1 << 20


def test_a_text_in_pieces_is_one_event_over_its_lines() -> None:
    lines = [b'{"type":"text","data":"%d "}\n' % number for number in range(3)]
    data = b"".join(lines) + b"noise\n" + lines[0]
    parser = parser_for("grok")
    assert parser.feed(b"".join(lines)) == []  # it may go on
    first, noise = parser.feed(b"noise\n")
    (last,) = parser.feed(lines[0]) + parser.close()
    assert (first.title, first.data, first.offset, first.length) == ("0 1 2 ", {"pieces": 3}, 0, 3 * len(lines[0]) - 1)
    assert (noise.kind, last.title, last.data) == (TraceKind.RAW, "0 ", {})
    assert data[last.offset : last.offset + last.length] + b"\n" == lines[0]


def test_a_text_in_pieces_is_bounded() -> None:
    short = b'{"type":"text","data":""}\n' * 30_000
    wide = (b'{"type":"text","data":"' + b"w" * 1000 + b'"}\n') * 40
    events = parse(short + wide, "grok")
    check_coverage(short + wide, events)
    assert all(event.length <= (1 << 18) + 1100 and len(event.body or event.title) < 1 << 15 for event in events)


def test_calls_are_bounded_and_counted() -> None:
    calls = Calls()
    assert [calls.begin("t", "a", "x") for _ in range(3)] == [{}, {"repeats": 1}, {"repeats": 2}]
    assert calls.end("a") and not calls.end("a")
    for number in range(5000):
        calls.begin("t", f"c{number}", str(number))
    assert calls.name("c0") == "" and calls.name("c4999") == "t"
