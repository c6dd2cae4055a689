"""Traces of CLIs that print text: every line is a RAW event. Also the RAW events of all other families."""

from __future__ import annotations

from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind
from ptb_tui.traces.lines import Line, LineSplitter, StampReader

TITLE = 300  # characters of a title


def one_line(text: str) -> str:
    """A title: the last non-empty segment of a text with carriage returns (what a terminal would show), shortened."""
    if "\n" in text:
        first = text[: text.find("\n")]
        text = first if first.strip() else next((part for part in text.split("\n") if part.strip()), "")
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    return text if len(text) <= TITLE else text[: TITLE - 1] + "…"


def raw_event(offset: int, length: int, size: int, time: str, payload: bytes, reason: str = "") -> TraceEvent:
    """The RAW event of a line of `length` bytes, of which `size` are known. `reason` says why a line that looks
    structured is shown raw."""
    text = payload.decode("utf-8", "replace")
    if text.endswith("\r"):
        text = text[:-1]
    if not reason and len(text) <= TITLE and "\r" not in text and length == size:
        return TraceEvent(offset, length, TraceKind.RAW, text, time=time)
    data: dict[str, Any] = {"reason": reason} if reason else {}
    if length > size:
        data["cut"] = size
    title = one_line(text)
    return TraceEvent(offset, length, TraceKind.RAW, title, text if text != title else "",
                      Severity.INFO, time, data=data)  # fmt: skip


class PlainParser:
    """TraceParser for text."""

    def __init__(self) -> None:
        self._lines = LineSplitter()
        self._stamps = StampReader()

    def feed(self, data: bytes) -> list[TraceEvent]:
        """Take the next bytes of the stamped trace; return the events of the lines that are now complete."""
        return self._events(self._lines.feed(data))

    def close(self) -> list[TraceEvent]:
        """The event of an unfinished last line, if any."""
        return self._events(self._lines.close())

    @property
    def between_lines(self) -> bool:
        """Whether the next byte begins a line."""
        return not self._lines.pending

    def skip(self, lines: bytes) -> int:
        """Count whole lines that somebody else turns into events; the offset where they begin."""
        return self._lines.skip(len(lines))

    def _events(self, lines: list[Line]) -> list[TraceEvent]:
        split = self._stamps.split
        return [raw_event(offset, length, len(data), *split(data)) for offset, length, data, _ in lines]
