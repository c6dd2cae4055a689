"""Event lines: round trip, torn tails, several writers."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core import events

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
data = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda key: key not in ("v", "seq", "kind", "t", "mono", "boot", "crc")),
    json_values,
    max_size=4,
)


@given(st.text(max_size=20), st.integers(0, 10**6), data)
def test_round_trip(kind: str, seq: int, values: dict[str, object]) -> None:
    line = events.encode(kind, seq, values)
    assert line.count(b"\n") == 1
    event = events.decode(line)
    assert event is not None and (event.kind, event.seq) == (kind, seq)
    assert dict(event.data) == json.loads(json.dumps(values))
    assert json.loads(line)["crc"], "the checksum stays inside the JSON, so that any tool reads the line"


@given(data, st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_a_changed_byte_is_noticed(values: dict[str, object], where: float, change: int) -> None:
    line = events.encode("phase", 1, values).rstrip(b"\n")
    position = int(where * len(line))
    damaged = line[:position] + bytes([line[position] ^ change]) + line[position + 1 :]
    event = events.decode(damaged)
    assert event is None or b'"crc":"' not in damaged or event.data == values


@given(st.binary(max_size=200))
def test_any_bytes(noise: bytes) -> None:
    events.decode(noise)


def test_a_torn_tail_hides_nothing_else(tmp_path: Path) -> None:
    writer = events.Writer(tmp_path)
    for number in range(3):
        writer.append("phase", name=str(number))
    writer.close()
    path = tmp_path / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    log = events.read(tmp_path)
    assert [event.data["name"] for event in log.events] == ["0", "1"] and log.skipped == 1


def test_an_adopter_writes_a_file_of_its_own(tmp_path: Path) -> None:
    first, second = events.Writer(tmp_path), events.Writer(tmp_path)
    second.append("adopted")
    first.append("claimed")
    assert [event.kind for event in events.read(tmp_path).events] == ["claimed", "adopted"]
    assert (tmp_path / "events-2.jsonl").exists()
