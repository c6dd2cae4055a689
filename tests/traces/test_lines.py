from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.traces.lines import Line, LineSplitter, StampReader, stamp


def split(data: bytes, cuts: list[int], limit: int) -> list[Line]:
    splitter = LineSplitter(limit)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    lines = [line for a, b in pairwise(edges) for line in splitter.feed(data[a:b])]
    return lines + splitter.close()


@settings(deadline=None)
@given(st.binary(max_size=80).map(lambda b: b.replace(b"x", b"\n")), st.lists(st.integers(0, 99), max_size=6))
def test_any_split_gives_the_same_lines(data: bytes, cuts: list[int]) -> None:
    assert split(data, cuts, 7) == split(data, [], 7)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), min_size=1, max_size=8), st.booleans())
def test_offsets_and_lengths_are_those_of_the_input(parts: list[bytes], ended: bool) -> None:
    data = b"\n".join(parts) + (b"\n" if ended else b"")
    lines = split(data, [3, 11], 5)
    assert [data[line.offset : line.offset + line.length] for line in lines] == [
        *(parts if ended else parts[:-1]),
        *([parts[-1]] if not ended and parts[-1] else []),
    ]
    assert all(line.data == data[line.offset : line.offset + min(5, line.length)] for line in lines)
    assert all(line.cut == (line.length > 5) for line in lines)


def test_a_long_line_is_cut_and_the_next_one_arrives() -> None:
    splitter = LineSplitter()
    for _ in range(40):
        assert splitter.feed(b"x" * 100_000) == []
    first, second = splitter.feed(b"end\nnext\n")
    assert (first.offset, first.length, len(first.data), first.cut) == (0, 4_000_003, 1 << 20, True)
    assert second == Line(4_000_004, 4, b"next", True)


def test_stamps() -> None:
    reader = StampReader()
    prefix = stamp("2026-08-01T09:00:00Z")
    assert prefix == b"[2026-08-01T09:00:00Z] "
    assert reader.split(prefix + b"a") == reader.split(prefix + b"a") == ("2026-08-01T09:00:00Z", b"a")
    for line in (b"", b"no stamp", b"[2026-08-01T09:00:00Z]", b" " + prefix, b"[2026-08-01T09:00:0xZ] a"):
        assert reader.split(line) == ("", line)
