from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.core.trace import TraceKind
from tests.traces.samples import STAMP, parse, stamped


def test_every_line_is_a_raw_event() -> None:
    events = parse(stamped("ptb_solve_out_cuda_fail.txt"), "plain")
    assert {event.kind for event in events} == {TraceKind.RAW}
    assert events[0].title.endswith("CUDA is NOT available") and events[0].time == STAMP


def test_a_progress_bar_shows_its_last_state_and_keeps_all() -> None:
    (event,) = parse(b"0%\r50%\r100%\r\n", "plain")
    assert event.title == "100%"
    assert event.body == "0%\r50%\r100%"


def test_an_unknown_family_is_text() -> None:
    assert parse(b"hello", "never-heard-of")[0].title == "hello"


def test_megabytes_without_line_feed() -> None:
    first, second = parse(b"y" * 5_000_000 + b"\nafter\n", "plain", list(range(0, 5_000_000, 65_536)))
    assert (first.length, first.data) == (5_000_000, {"cut": 1 << 20})
    assert len(first.title) <= 300
    assert second.title == "after"


@settings(deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=5))
def test_total_and_the_same_for_any_split(data: bytes, cuts: list[int]) -> None:
    data = data.replace(b"\x01", b"\n")
    events = parse(data, "plain", cuts)
    assert events == parse(data, "plain")
    assert [event.offset for event in events] == sorted(event.offset for event in events)
