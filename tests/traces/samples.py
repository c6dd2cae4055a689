from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from ptb_tui.core.trace import TraceEvent
from ptb_tui.traces import parser_for
from ptb_tui.traces.lines import stamp

DATA = Path(__file__).parents[1] / "data" / "traces"
STAMP = "2026-08-01T09:00:00Z"


def stamped(name: str) -> bytes:
    """A sample as the follower writes it."""
    data = (DATA / name).read_bytes()
    ended = data.endswith(b"\n")
    lines = data.removesuffix(b"\n").split(b"\n")
    return b"\n".join(stamp(STAMP) + line for line in lines) + (b"\n" if ended else b"")


def parse(data: bytes, family: str = "claude", cuts: list[int] | None = None) -> list[TraceEvent]:
    """All events of a trace, fed in the given parts."""
    parser = parser_for(family)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    events = [event for a, b in pairwise(edges) for event in parser.feed(data[a:b])]
    return events + parser.close()
