"""Work on a site as it goes on: a bar on a terminal, the lines of its log elsewhere, events with `--json`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from ptb_tui.core.clock import utc_text
from ptb_tui.present import numbers
from ptb_tui.present.table import Span

if TYPE_CHECKING:
    from ptb_tui.core.supply import WorkView
    from ptb_tui.present.output import Output

_BAR = 24


def bar(view: WorkView, seconds: float, begun: int, *, ascii_only: bool = False) -> str:
    """One line: how much of how much, the time left, what is being done. `begun` is what was done `seconds` ago."""
    parts = []
    if view.total and view.done is not None:
        share = min(1.0, max(0.0, view.done / view.total))
        full = int(share * _BAR)
        signs = ("#", ".") if ascii_only else ("█", "░")
        parts.append(f"{signs[0] * full}{signs[1] * (_BAR - full)} {share * 100:3.0f} %")
        parts.append(f"{numbers.size(view.done)} of {numbers.size(view.total)}")
        if view.done > begun and seconds >= 2:
            rate = (view.done - begun) / seconds
            parts.append(f"{numbers.size(int(rate))}/s, {numbers.left((view.total - view.done) / rate)}")
    return "  ".join(part for part in (*parts, view.words) if part)


class Show(Protocol):
    """Shows how work goes on."""

    def look(self, view: WorkView) -> None:
        """As it is now; `view.log` holds what is new."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class Lines:
    """The log, line by line, to people; or as events."""

    def __init__(self, out: Output) -> None:
        self.out = out

    def look(self, view: WorkView) -> None:
        """Its new lines."""
        for line in view.log.splitlines():
            if self.out.as_json:
                self.out.record({"event": "log", "t": utc_text(), "work": view.id, "words": line})
            else:
                self.out.note(line)

    def close(self) -> None:
        """Nothing to restore."""


class Bar:
    """One line that is drawn over itself."""

    def __init__(self, out: Output) -> None:
        from ptb_tui.present.live import Canvas

        self.out, self.canvas = out, Canvas(out)
        self.at, self.begun = time.monotonic(), -1

    def look(self, view: WorkView) -> None:
        """Draw it."""
        if self.begun < 0 and view.done is not None:
            self.at, self.begun = time.monotonic(), view.done
        seconds = time.monotonic() - self.at
        text = bar(view, seconds, max(0, self.begun), ascii_only=self.out.ascii_only)
        self.canvas.draw([[Span(text or f"work {view.id}", "cyan")]])

    def close(self) -> None:
        """Leave the last picture standing."""
        self.canvas.close()


def choose(out: Output) -> Show:
    """The way that fits the output."""
    return Bar(out) if out.controls else Lines(out)
