"""What the parsers of JSON lines share: bytes to objects, objects to events, the pieces of one text joined."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic_core import from_json

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.background import Background, words
from ptb_tui.traces.blocks import pretty
from ptb_tui.traces.lines import LIMIT, STAMP_SIZE, Line, LineSplitter, StampReader
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
    """Makes the events of one line after the other; `at` says which."""

    __slots__ = ("length", "offset", "size", "time")

    def __init__(self) -> None:
        self.offset = self.length = self.size = 0  # of the line, as in `Line`; `size` bytes of it are known
        self.time = ""

    def at(self, line: Line, time: str) -> EventMaker:
        """The events of this line from now on."""
        self.offset, self.length, self.size, self.time = line.offset, line.length, len(line.data), time
        return self

    @property
    def cut(self) -> bool:
        """Whether only the beginning of the line is known."""
        return self.length > self.size

    def __call__(self, kind: TraceKind, title: str, body: str = "", severity: Severity = _INFO, *,
                 data: dict[str, Any] | None = None, tool: str = "", tool_id: str = "",
                 message_id: str = "", usage: Usage | None = None) -> TraceEvent:  # fmt: skip
        """An event; `title` is one line."""
        if data is None:
            data = {}
        if self.length > self.size:
            data = {**data, "cut": self.size}
        return TraceEvent(self.offset, self.length, kind, title, body, severity, self.time, tool, tool_id, message_id,
                          usage, data)  # fmt: skip

    def text(self, kind: TraceKind, text: str, severity: Severity = _INFO, *, data: dict[str, Any] | None = None,
             tool: str = "", tool_id: str = "", message_id: str = "") -> TraceEvent:  # fmt: skip
        """An event whose title is the first line of its text; the body is absent when the title says it all."""
        title = one_line(text)
        if data is None:
            data = {}
        if self.length > self.size:
            data = {**data, "cut": self.size}
        return TraceEvent(self.offset, self.length, kind, title, text if text != title else "", severity, self.time,
                          tool, tool_id, message_id, None, data)  # fmt: skip

    def raw(self, payload: bytes, reason: str = "") -> TraceEvent:
        """The event of a line that is shown as it is."""
        return raw_event(self.offset, self.length, self.size, self.time, payload, reason)

    def unknown(self, name: str, rest: object) -> TraceEvent:
        """The event of an object that no rule knows; nothing of it is dropped."""
        return self(TraceKind.SYSTEM, one_line(name), pretty(rest), data={"unknown": name[:80]})


class Calls:
    """The calls that have no result yet, and how often the last one was repeated. Bounded."""

    __slots__ = ("_last", "_name", "_open", "_repeats")

    def __init__(self) -> None:
        self._open: dict[str, str] = {}  # id: tool name, oldest first
        self._name = self._last = ""
        self._repeats = 0

    def begin(self, name: str, call_id: str, text: str) -> dict[str, Any]:
        """Note a call; the facts that its event gets."""
        if call_id:
            opened = self._open
            opened[call_id] = name
            if len(opened) > _REMEMBERED_CALLS:
                for old in list(opened)[: _REMEMBERED_CALLS // 2]:
                    del opened[old]
        if name == self._name and text == self._last:
            self._repeats += 1
            return {"repeats": self._repeats}
        self._name, self._last, self._repeats = name, text, 0
        return {}

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
        self._make = EventMaker()
        self._run: _Run | None = None
        self._background = Background()

    def feed(self, data: bytes) -> list[TraceEvent]:
        """Take the next bytes of the stamped trace; return the events of the lines that are now complete. A text in
        pieces is complete when another line follows, or when it grows long."""
        events: list[TraceEvent] = []
        begun, offset, lines = self._lines.take(data)
        for line in begun:
            self._odd(line, events)
        stamps, make, of_object = self._stamps, self._make, self._object
        prefix, time = stamps.prefix, stamps.time
        for text in lines:
            length = len(text)
            if text.startswith(prefix):
                payload = text[STAMP_SIZE:]
            else:
                time, payload = stamps.split(text)
                prefix = stamps.prefix if time else b"\n"
            try:  # one object and nothing else, as nearly all lines are
                item = from_json(payload, cache_strings="keys") if payload[:1] == b"{" and length <= LIMIT else None
            except ValueError:
                item = None
            if item is not None and isinstance(kind := item.get("type"), str):
                make.offset, make.length, make.size, make.time = offset, length, length, time
                found = of_object(make, kind, item)
                if isinstance(found, list):
                    if self._run is not None:
                        events += self._flush()
                    events += found
                else:
                    events += self._join(make, found)
            else:
                self._odd(Line(offset, length, text[:LIMIT], True), events)
            offset += length + 1
        return events

    def close(self) -> list[TraceEvent]:
        """The events of an unfinished last line or text, if any."""
        events: list[TraceEvent] = []
        for line in self._lines.close():
            self._odd(line, events)
        return events + self._flush()

    def _object(self, make: EventMaker, kind: str, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        """At least one event for an object with the given `type`, or a piece of a text."""
        raise NotImplementedError

    def _untyped(self, make: EventMaker, item: dict[str, Any]) -> list[TraceEvent] | Delta:
        """Events of an object without a type; none when nothing is known of it, then it stays raw."""
        return []

    def _text(self, make: EventMaker, text: bytes, reason: str) -> list[TraceEvent]:
        """At least one event for text that is no JSON object."""
        return [make.raw(text, reason)]

    def _odd(self, line: Line, events: list[TraceEvent]) -> None:
        """The events of a line of any kind."""
        time, payload = self._stamps.split(line.data)
        make = self._make.at(line, time)
        pieces = read_line(payload, cut=line.cut)
        for piece in pieces:
            if not isinstance(piece, dict):
                found: list[TraceEvent] | Delta = self._text(make, piece.text, piece.reason)
            elif isinstance(kind := piece.get("type"), str):
                found = self._object(make, kind, piece)
            else:
                text = payload if len(pieces) == 1 else pretty(piece).encode("utf-8", "replace")
                reason = "a JSON object without a type"
                found = self._untyped(make, piece) or [make.raw(text, reason)]
            if isinstance(found, Delta):
                events += self._join(make, found)
            else:
                events += self._flush() if self._run is not None else ()
                events += found

    def _join(self, make: EventMaker, delta: Delta) -> list[TraceEvent]:
        if make.cut:
            return [*self._flush(), make.text(delta.kind, delta.text)]
        run = self._run
        flushed: list[TraceEvent] = []
        if run is None or run.kind is not delta.kind:
            flushed = self._flush()
            self._run = run = _Run(make, delta.kind)
        if run.add(make, delta.text):
            flushed += self._flush()
        return flushed

    def _flush(self) -> list[TraceEvent]:
        run, self._run = self._run, None
        if run is None:
            return []
        if run.kind is TraceKind.TEXT:
            self._background.said(run.text)
        return [run.event()]

    def _end_of_session(self, make: EventMaker, end: TraceEvent) -> list[TraceEvent]:
        """The event of a session's good end, after one that says what the session left running, if it did."""
        if self._run is not None and self._run.kind is TraceKind.TEXT:
            self._background.said(self._run.text)
        left = self._background.at_end()
        if not left:
            return [end]
        end.data = {**end.data, **left}
        return [make(TraceKind.ERROR, words(left), "", Severity.WARNING, data=left), end]


class _Run:
    """A text in pieces, so far."""

    __slots__ = ("_end", "_first", "_parts", "_size", "_time", "kind")

    def __init__(self, make: EventMaker, kind: TraceKind) -> None:
        self._first, self._time, self.kind = make.offset, make.time, kind
        self._end = 0
        self._parts: list[str] = []
        self._size = 0

    def add(self, make: EventMaker, text: str) -> bool:
        """Take a piece; whether the text is long enough to be an event."""
        self._end = make.offset + make.length
        self._parts.append(text)
        self._size += len(text)
        return self._size >= _RUN_TEXT or self._end - self._first >= _RUN_BYTES

    @property
    def text(self) -> str:
        """What there is so far."""
        return "".join(self._parts)

    def event(self) -> TraceEvent:
        text = self.text
        data: dict[str, Any] = {"pieces": len(self._parts)} if len(self._parts) > 1 else {}
        title = one_line(text)
        if self.kind is TraceKind.THINKING and not text.strip():
            title, text, data = "thinking hidden", "", {**data, "hidden": True}
        return TraceEvent(self._first, self._end - self._first, self.kind, title, text if text != title else "",
                          time=self._time, data=data)  # fmt: skip


def string(item: dict[str, Any], *keys: str) -> str:
    """The first of the named fields that is a string with content; "" when there is none."""
    for key in keys:
        value = item.get(key)
        if value and isinstance(value, str):
            return value
    return ""


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
