"""What the parsers of JSON lines share: bytes to objects, objects to events, the pieces of one text joined."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.blocks import pretty
from ptb_tui.traces.lines import Line, LineSplitter, StampReader
from ptb_tui.traces.objects import read_line
from ptb_tui.traces.plain import one_line, raw_event

_REMEMBERED_CALLS = 4096
_RUN_TEXT = 1 << 14  # characters of a joined text
_RUN_BYTES = 1 << 18  # bytes of the lines that are joined
_INFO = Severity.INFO


class Delta(NamedTuple):
    """A piece of a text that the CLI prints bit by bit; pieces of one kind in lines that follow each other are one
    event over all their lines."""

    kind: TraceKind
    text: str


class EventMaker:
    """Makes events of one line."""

    __slots__ = ("_cut", "line", "time")

    def __init__(self, line: Line, time: str) -> None:
        self.line, self.time = line, time
        self._cut = {"cut": len(line.data)} if line.cut else {}

    def __call__(self, kind: TraceKind, title: str, body: str = "", severity: Severity = _INFO, *,
                 data: dict[str, Any] | None = None, tool: str = "", tool_id: str = "",
                 message_id: str = "", usage: Usage | None = None) -> TraceEvent:  # fmt: skip
        """An event; `title` is one line."""
        line = self.line
        data = {**data, **self._cut} if data else self._cut
        return TraceEvent(line.offset, line.length, kind, title, body, severity, self.time, tool, tool_id,
                          message_id, usage, data)  # fmt: skip

    def text(self, kind: TraceKind, text: str, severity: Severity = _INFO, *, data: dict[str, Any] | None = None,
             tool: str = "", tool_id: str = "", message_id: str = "") -> TraceEvent:  # fmt: skip
        """An event whose title is the first line of its text; the body is absent when the title says it all."""
        title = one_line(text)
        body = text if text != title else ""
        return self(kind, title, body, severity, data=data, tool=tool, tool_id=tool_id, message_id=message_id)

    def unknown(self, name: str, rest: object) -> TraceEvent:
        """The event of an object that no rule knows; nothing of it is dropped."""
        return self(TraceKind.SYSTEM, one_line(name), pretty(rest), data={"unknown": name[:80]})

    def again(self, event: TraceEvent, message_id: str, usage: Usage | None, data: dict[str, Any]) -> TraceEvent:
        """The same event as a part of a message."""
        return TraceEvent(event.offset, event.length, event.kind, event.title, event.body, event.severity, event.time,
                          event.tool, event.tool_id, message_id, usage, {**event.data, **data})  # fmt: skip


class Calls:
    """The calls that have no result yet, and how often the last one was repeated. Bounded."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, str] = OrderedDict()  # id: tool name
        self._last: tuple[str, str] = ("", "")
        self._repeats = 0

    def begin(self, name: str, call_id: str, text: str) -> dict[str, Any]:
        """Note a call; the facts that its event gets."""
        if call_id:
            self._open[call_id] = name
            if len(self._open) > _REMEMBERED_CALLS:
                self._open.popitem(last=False)
        self._repeats = self._repeats + 1 if (name, text) == self._last else 0
        self._last = (name, text)
        return {"repeats": self._repeats} if self._repeats else {}

    def name(self, call_id: str) -> str:
        """The tool of a call; "" when the call was not seen."""
        return self._open.get(call_id, "")

    def end(self, call_id: str) -> bool:
        """Forget a call, because its id may come again in a later session; whether it was known."""
        return self._open.pop(call_id, None) is not None


class JsonLinesParser:
    """TraceParser of a CLI that prints JSON lines among other text. Families say what an object means."""

    def __init__(self) -> None:
        self._lines = LineSplitter()
        self._stamps = StampReader()
        self._run: _Run | None = None

    def feed(self, data: bytes) -> list[TraceEvent]:
        """Take the next bytes of the stamped trace; return the events of the lines that are now complete. A text in
        pieces is complete when another line follows, or when it grows long."""
        return [event for line in self._lines.feed(data) for event in self._line(line)]

    def close(self) -> list[TraceEvent]:
        """The events of an unfinished last line or text, if any."""
        return [event for line in self._lines.close() for event in self._line(line)] + self._flush()

    def _object(self, make: EventMaker, kind: str, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        """At least one event for an object with the given `type`, or a piece of a text."""
        raise NotImplementedError

    def _untyped(self, make: EventMaker, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        """Events of an object without a type; none when nothing is known of it, then it stays raw."""
        return []

    def _text(self, make: EventMaker, text: bytes, reason: str) -> list[TraceEvent]:
        """At least one event for text that is no JSON object."""
        return [raw_event(make.line, make.time, text, reason)]

    def _line(self, line: Line) -> list[TraceEvent]:
        time, payload = self._stamps.split(line.data)
        pieces = read_line(payload, cut=line.cut)
        make = EventMaker(line, time)
        events: list[TraceEvent] = []
        for piece in pieces:
            if not isinstance(piece, dict):
                found: list[TraceEvent] | Delta = self._text(make, piece.text, piece.reason)
            elif isinstance(kind := piece.get("type"), str):
                found = self._object(make, kind, piece)
            else:
                text = payload if len(pieces) == 1 else pretty(piece).encode("utf-8", "replace")
                reason = "a JSON object without a type"
                found = self._untyped(make, piece) or [raw_event(line, time, text, reason)]
            if isinstance(found, Delta):
                events += self._join(make, found)
            else:
                events += self._flush() if self._run is not None else ()
                events += found
        return events

    def _join(self, make: EventMaker, delta: Delta) -> list[TraceEvent]:
        if make.line.cut:
            return [*self._flush(), make.text(delta.kind, delta.text)]
        run = self._run
        flushed: list[TraceEvent] = []
        if run is None or run.kind is not delta.kind:
            flushed = self._flush()
            self._run = run = _Run(make, delta.kind)
        if run.add(make.line, delta.text):
            flushed += self._flush()
        return flushed

    def _flush(self) -> list[TraceEvent]:
        run, self._run = self._run, None
        return [run.event()] if run is not None else []


class _Run:
    """A text in pieces, so far."""

    __slots__ = ("_end", "_make", "_parts", "_size", "kind")

    def __init__(self, make: EventMaker, kind: TraceKind) -> None:
        self._make, self.kind = make, kind
        self._end = 0
        self._parts: list[str] = []
        self._size = 0

    def add(self, line: Line, text: str) -> bool:
        """Take a piece; whether the text is long enough to be an event."""
        self._end = line.offset + line.length
        self._parts.append(text)
        self._size += len(text)
        return self._size >= _RUN_TEXT or self._end - self._make.line.offset >= _RUN_BYTES

    def event(self) -> TraceEvent:
        text = "".join(self._parts)
        first = self._make.line
        data: dict[str, Any] = {"pieces": len(self._parts)} if len(self._parts) > 1 else {}
        title = one_line(text)
        if self.kind is TraceKind.THINKING and not text.strip():
            title, text, data = "thinking hidden", "", {**data, "hidden": True}
        return TraceEvent(first.offset, self._end - first.offset, self.kind, title, text if text != title else "",
                          time=self._make.time, data=data)  # fmt: skip


def string(item: dict[str, Any], *keys: str) -> str:
    """The first of the named fields that is a string with content; "" when there is none."""
    return next((value for key in keys if isinstance(value := item.get(key), str) and value), "")


def without(item: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The other fields of an object."""
    return {key: value for key, value in item.items() if key not in keys}


def scalars(item: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The named fields that are short strings, numbers or flags."""
    found: dict[str, Any] = {}
    for key in keys:
        value = item.get(key)
        if isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 200):
            found[key] = value
    return found


def error_words(item: dict[str, Any]) -> str:
    """What an object says went wrong: its `error`, as text or with a message, else its `message`."""
    error = item.get("error")
    if isinstance(error, dict):
        error = error.get("message") or error.get("type") or error.get("name")
    for value in (error, item.get("message")):
        if isinstance(value, str) and value:
            return value
    return "error"
