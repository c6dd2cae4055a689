import json
import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ptb_tui.core.action import Cancel, Receipt, RunRef
from ptb_tui.core.errors import NotFound, PtbError, StepError, WireError
from ptb_tui.core.query import RunDetail, RunList, RunRow, RunsQuery, TraceChunk, answer_type, query_type
from ptb_tui.site import wire
from ptb_tui.site.wire import AwaitHello, AwaitReady, Lines, Ready, Reply, Request

TOKEN = "0123456789abcdef0123456789abcdef"
READY = Ready(wire=wire.VERSION, version="0.1.0", pid=7, host="node", root="/r", content=("/c",))
cuts = st.lists(st.integers(0, 400), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def split(data: bytes, at: list[int]) -> list[bytes]:
    places = [0, *sorted(min(place, len(data)) for place in at), len(data)]
    return [data[start:stop] for start, stop in pairwise(places)]


@given(st.lists(st.binary(max_size=60)), cuts)
def test_any_split_gives_the_same_lines(lines: list[bytes], at: list[int]) -> None:
    stream = b"\n".join(lines)
    cut = Lines()
    found = [line for part in split(stream, at) for line in cut.feed(part)]
    *whole, rest = stream.split(b"\n")
    assert found == [line for line in whole if line]
    assert cut.rest == rest


@given(st.lists(st.tuples(st.integers(0, 2**53 - 1), st.dictionaries(st.text(), JSON, max_size=3)), max_size=4), cuts)
def test_frames_come_back_whatever_is_in_them(sent: list[tuple[int, dict[str, object]]], at: list[int]) -> None:
    frames = [Reply(id=number, kind="item", body=body) for number, body in sent]
    stream = b"".join(wire.encode(frame) for frame in frames)
    cut = Lines()
    assert [wire.decode(Reply, line) for part in split(stream, at) for line in cut.feed(part)] == frames


@given(st.binary(max_size=300), cuts)
def test_garbage_is_a_wire_error_and_nothing_else(data: bytes, at: list[int]) -> None:
    cut = Lines(limit=100)
    try:
        for part in split(data, at):
            for line in cut.feed(part):
                assert isinstance(wire.decode(Request, line), Request)
    except WireError as error:
        assert error.message.isprintable()


@given(st.integers(90, 110), cuts)
def test_the_limit_of_a_line_does_not_depend_on_the_split(length: int, at: list[int]) -> None:
    cut = Lines(limit=100)
    stream = b"x" * length + b"\n"
    try:
        found = [line for part in split(stream, at) for line in cut.feed(part)]
    except WireError:
        assert length + 1 > 100
    else:
        assert found == [b"x" * length]
        assert length + 1 <= 100


@given(st.binary(max_size=2000), st.binary(max_size=50), cuts)
@example(b"PTB-READY " + TOKEN[:9].encode(), b"", [12, 30])
@example(f"PTB-HELLO {TOKEN} 1\nPTB-READY \n$ ".encode(), b"\n{", [3])
@example(b"Last login: today\r\n\x1b[1mmotd\x1b[0m\nprompt> ", b"rest", [])
def test_noise_before_the_greeting_is_skipped_and_kept(noise: bytes, after: bytes, at: list[int]) -> None:
    waiting = AwaitReady(TOKEN)
    rest = bytearray()
    ready = None
    for part in split(noise + wire.ready_line(TOKEN, READY) + after, at):
        if ready is not None:
            rest += part
        elif greeting := waiting.feed(part):
            ready = greeting[0]
            rest += greeting[1]
    assert (ready, bytes(rest), waiting.noise) == (READY, after, noise)


@given(st.binary(max_size=500), st.binary(max_size=50), cuts)
def test_the_far_end_finds_the_first_line(noise: bytes, after: bytes, at: list[int]) -> None:
    waiting = AwaitHello()
    rest = bytearray()
    token = None
    for part in split(noise + wire.hello(TOKEN) + after, at):
        if token is not None:
            rest += part
        elif greeting := waiting.feed(part):
            token = greeting[0]
            rest += greeting[1]
    assert (token, bytes(rest)) == (TOKEN, after)


@pytest.mark.parametrize("step", [1 << 10, 4093, 1 << 20])
def test_noise_has_an_end(step: int) -> None:
    for waiting in (AwaitReady(TOKEN), AwaitHello()):
        with pytest.raises(WireError, match="64 KiB"):
            for _ in range(0, 1 << 20, step):
                waiting.feed(b"-" * step)


def test_64_kib_of_noise_are_allowed() -> None:
    waiting = AwaitReady(TOKEN)
    assert waiting.feed(b"-" * wire.MAX_NOISE + wire.ready_line(TOKEN, READY)) == (READY, b"")
    with pytest.raises(WireError, match="64 KiB"):
        AwaitReady(TOKEN).feed(b"-" * (wire.MAX_NOISE + 1) + wire.ready_line(TOKEN, READY))


def test_a_greeting_without_end_or_sense_is_refused() -> None:
    start = f"PTB-READY {TOKEN} ".encode()
    with pytest.raises(WireError, match="no end"):
        AwaitReady(TOKEN).feed(start + b"x" * (wire.MAX_NOISE + 1))
    with pytest.raises(WireError, match="not JSON"):
        AwaitReady(TOKEN).feed(start + b"{oops}\n")
    with pytest.raises(WireError, match=r"\(wire: "):
        AwaitReady(TOKEN).feed(start + b"{}\n")


def test_another_version_is_named() -> None:
    other = READY.model_copy(update={"wire": 99, "version": "9.0"})
    with pytest.raises(WireError, match=r"version 99 .*9\.0") as caught:
        AwaitReady(TOKEN).feed(wire.ready_line(TOKEN, other))
    assert "both ends" in caught.value.hint


def test_a_newer_far_end_may_say_more() -> None:
    line = f"PTB-READY {TOKEN} ".encode() + json.dumps({**READY.model_dump(), "moon": "full"}).encode() + b"\n"
    assert AwaitReady(TOKEN).feed(line) == (READY, b"")


def test_too_large_a_frame_is_refused_with_a_hint() -> None:
    with pytest.raises(PtbError, match=r"5\.0 MiB; at most 4 MiB") as caught:
        wire.encode(Reply(id=1, kind="answer", body={"a": "x" * (5 << 20)}))
    assert not isinstance(caught.value, WireError)
    assert caught.value.hint


def test_what_json_cannot_carry_is_a_wire_error() -> None:
    with pytest.raises(WireError):
        wire.encode(Reply(id=1, kind="answer", body={"a": "\ud800"}))


ROW = RunRow(id=3, method="m", benchmark="gsm8k", model="Qwen/Q", flags=("stale",), score=0.5)


@pytest.mark.parametrize(
    "answer",
    [
        RunList(runs=(ROW, ROW), problems=("x",)),
        RunDetail(row=ROW, spec={"a": [1, {"b": None}]}, metrics={"accuracy": 0.25}, files={"a": 1 << 60}),
        TraceChunk(run_id=1, offset=0, next=9, size=9, text="\x1b]0;t\x07 \u202e\x00 ünï 🎈", ended=True),
    ],
)
def test_answers_come_back_as_they_went(answer: RunList | RunDetail | TraceChunk) -> None:
    line = wire.encode(Reply(id=1, kind="answer", body=wire.plain(answer)))
    assert line.count(b"\n") == 1
    assert wire.answer_of(wire.decode(Reply, line).body) == answer
    assert answer_type().validate_python(wire.plain(answer)) == answer


def test_not_a_number_comes_back_as_it_went() -> None:
    answer = RunDetail(row=ROW.model_copy(update={"score": math.nan}), metrics={"a": math.inf})
    back = wire.answer_of(wire.decode(Reply, wire.encode(Reply(id=1, kind="answer", body=wire.plain(answer)))).body)
    assert isinstance(back, RunDetail)
    assert back.row.score is not None and math.isnan(back.row.score)
    assert back.metrics == {"a": math.inf}


def test_bodies() -> None:
    query = RunsQuery(match="claude", ids=(1, 2))
    assert wire.body_of(wire.AskBody, {"query": wire.plain(query)}).query == query
    assert query_type().validate_python(wire.plain(query)) == query
    doing = wire.body_of(wire.DoBody, {"action": wire.plain(Cancel(run="7", operator="o")), "token": "t"})
    assert doing.action == Cancel(run="7", operator="o")
    receipt = Receipt(action="cancel", token="t", runs=(RunRef(id=7),))
    assert wire.body_of(Receipt, wire.plain(receipt)) == receipt
    with pytest.raises(WireError, match="query"):
        wire.body_of(wire.AskBody, {"query": {"kind": "moon"}})
    with pytest.raises(WireError, match="token"):
        wire.body_of(wire.DoBody, {"action": wire.plain(Cancel(run="7")), "token": ""})
    with pytest.raises(WireError):
        wire.answer_of({"kind": "runs", "runs": 3})


@given(st.binary(max_size=3000))
def test_file_data(data: bytes) -> None:
    assert wire.DataBody.of(data).content() == data


def test_file_data_that_is_not_base64() -> None:
    with pytest.raises(WireError):
        wire.DataBody(data="no!").content()


@pytest.mark.parametrize("error", [NotFound("no run 7", hint="look"), StepError("full", cause="disk_full")])
def test_errors_come_back(error: PtbError) -> None:
    back = wire.body_of(wire.ErrorBody, dict(error.to_wire())).error()
    assert (type(back), back.to_wire()) == (type(error), error.to_wire())
    with pytest.raises(WireError):
        wire.body_of(wire.ErrorBody, {"type": ["odd"], "message": "x"})
