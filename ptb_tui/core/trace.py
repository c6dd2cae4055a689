"""The one model of a trace: bytes in, `TraceEvent`s out, no line dropped (design §6). Standard library alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


class TraceKind(StrEnum):
    """What an event is, whatever CLI wrote it."""

    INIT = "init"
    TEXT = "text"
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    USER = "user"
    SYSTEM = "system"
    LIMIT = "limit"
    RETRY = "retry"
    ERROR = "error"
    RESULT = "result"
    RAW = "raw"


class Severity(StrEnum):
    """How much a person should care."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(slots=True)
class Usage:
    """Tokens and money of one message; None is unknown, never zero. Not changed once it is in an event."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost_usd: float | None = None


@dataclass(slots=True)  # one is made for every line, and a frozen one takes seven times as long to make
class TraceEvent:
    """One event. `offset` and `length` are bytes of its line in the stamped trace (`solve_out.txt`).

    `title` is one line, `body` the rest; both are untrusted text as written by the agent. Whoever made an event does
    not change it once it is given away.
    """

    offset: int
    length: int
    kind: TraceKind
    title: str = ""
    body: str = ""
    severity: Severity = Severity.INFO
    time: str = ""
    tool: str = ""
    tool_id: str = ""
    message_id: str = ""
    usage: Usage | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """The explicit wire form; empty fields are left out."""
        wire: dict[str, Any] = {"o": self.offset, "n": self.length, "k": self.kind.value}
        pairs = (("t", self.time), ("h", self.title), ("b", self.body), ("tool", self.tool), ("id", self.tool_id))
        wire.update({key: value for key, value in (*pairs, ("m", self.message_id)) if value})
        if self.severity is not Severity.INFO:
            wire["s"] = self.severity.value
        if self.usage is not None:
            usage = self.usage
            wire["u"] = [usage.input, usage.output, usage.cache_read, usage.cache_write, usage.cost_usd]
        if self.data:
            wire["d"] = dict(self.data)
        return wire

    @staticmethod
    def from_wire(wire: Mapping[str, Any]) -> TraceEvent:
        """Read the wire form; KeyError or ValueError when it is not one."""
        usage = wire.get("u")
        return TraceEvent(
            offset=int(wire["o"]),
            length=int(wire["n"]),
            kind=TraceKind(wire["k"]),
            title=str(wire.get("h", "")),
            body=str(wire.get("b", "")),
            severity=Severity(wire.get("s", "info")),
            time=str(wire.get("t", "")),
            tool=str(wire.get("tool", "")),
            tool_id=str(wire.get("id", "")),
            message_id=str(wire.get("m", "")),
            usage=Usage(*usage) if usage is not None else None,
            data=dict(wire.get("d", {})),
        )


class TraceParser(Protocol):
    """Incremental parser of one CLI family: total on any bytes, constant memory, same events for any split."""

    def feed(self, data: bytes) -> list[TraceEvent]:
        """Take the next bytes of the stamped trace; return the events of the lines that are now complete."""
        ...

    def close(self) -> list[TraceEvent]:
        """The events of an unfinished last line, if any."""
        ...
