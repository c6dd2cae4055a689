from __future__ import annotations

import io
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces import index
from tests.traces.samples import parse, stamped

RESULT, TEXT = TraceKind.RESULT, TraceKind.TEXT


def rows(events: list[TraceEvent]) -> list[TraceEvent]:
    data = "".join(map(index.encode, events)).encode("ascii")
    return list(index.rows(io.BytesIO(data)))


def said(message: str, usage: Usage) -> TraceEvent:
    return TraceEvent(0, 1, TEXT, message_id=message, usage=usage)


def result(usage: Usage, session: str = "s") -> TraceEvent:
    return TraceEvent(0, 1, RESULT, usage=usage, data={"session_id": session})


def test_rows_point_into_the_trace() -> None:
    data = stamped("claude_stream_2.1.jsonl")
    events = parse(data)
    found = rows(events)
    assert [(row.offset, row.length, row.kind, row.severity, row.usage, row.message_id) for row in found] == [
        (event.offset, event.length, event.kind, event.severity, event.usage, event.message_id) for event in events
    ]
    assert not any(row.title or row.body for row in found)
    assert found[5].data["retry_delay_ms"] == 1200


def test_torn_and_foreign_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "trace.idx"
    good = index.encode(TraceEvent(3, 4, TEXT, severity=Severity.ERROR)).encode()
    path.write_bytes(good + b'nonsense\n[1]\n{"o":1}\n{"o":1,"n":2,"k":"raw","u":5}\n' + good + good[:-7])
    assert [row.offset for row in index.read(path)] == [3, 3]
    assert list(index.read(tmp_path / "absent")) == []


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_line_is_a_row_or_none(data: bytes) -> None:
    index.decode(data)


def test_usage_counts_a_message_once() -> None:
    first, again = said("m1", Usage(3, 1, 100, 5)), said("m1", Usage(3, 88, 100, 5))
    assert index.totals([first, again, said("m2", Usage(1, 2))]) == Usage(4, 90, 100, 5, None)
    assert index.totals([]) == Usage()


def test_a_result_wins_over_its_messages() -> None:
    events = [said("m1", Usage(3, 1, 100)), result(Usage(10, 80, 90, 0, 0.5))]
    assert index.totals(events) == Usage(10, 80, 90, 0, 0.5)
    assert index.totals([*events, said("m2", Usage(1, 1))]) == Usage(11, 81, 90, 0, 0.5)
    assert index.totals([*events, result(Usage(20, 90, 95, 0, 0.7))]) == Usage(20, 90, 95, 0, 0.7)
    assert index.totals([*events, result(Usage(1, 1, 1, 1, 0.25), "t")]) == Usage(11, 81, 91, 1, 0.75)
    assert index.totals([said("m1", Usage(3, 1)), result(Usage(cost_usd=0.1))]) == Usage(3, 1, None, None, 0.1)


def test_totals_of_real_traces() -> None:
    assert index.totals(rows(parse(stamped("claude.merged.txt")))) == Usage(400, 80, 2000, 0, 0.0036000000000000003)
    assert index.totals(rows(parse(stamped("claude_truncated_tail.jsonl")))) == Usage(3, 88, 11264, 5120)
