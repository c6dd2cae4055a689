"""Lines of a stamped trace: `[YYYY-MM-DDTHH:MM:SSZ] ` and what the agent printed (H §3.1). Standard library alone."""

from __future__ import annotations

import re
from typing import NamedTuple

LIMIT = 1 << 20  # bytes of a line that are kept; the rest is only counted
STAMP_SIZE = 23
_STAMP = re.compile(rb"\[([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)\] ")


class Line(NamedTuple):
    """One line. `offset` and `length` count bytes of the trace: stamp included, line feed not."""

    offset: int
    length: int
    data: bytes  # stamp and payload, at most LIMIT bytes
    ended: bool  # whether its line feed was there

    @property
    def cut(self) -> bool:
        """Whether `data` is only the beginning of the line."""
        return self.length > len(self.data)


class LineSplitter:
    """Incremental: the same lines for any split of the input. Holds at most LIMIT bytes of an unfinished line."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._offset = 0  # of the unfinished line
        self._length = 0  # bytes of it so far
        self._head = bytearray()

    def feed(self, data: bytes) -> list[Line]:
        """The lines that are complete now."""
        lines, offset, parts = self.take(data)
        limit = self._limit
        for part in parts:
            length = len(part)
            lines.append(Line(offset, length, part if length <= limit else part[:limit], True))
            offset += length + 1
        return lines

    def take(self, data: bytes) -> tuple[list[Line], int, list[bytes]]:
        """The same in another form, for who has no time: the line that began in earlier data, if that is complete
        now, the offset of the first line behind it, and those lines whole."""
        parts = data.split(b"\n")
        last = parts.pop()
        begun: list[Line] = []
        if parts and self._length:
            self._add(parts.pop(0))
            begun.append(Line(self._offset, self._length, bytes(self._head), True))
            self._offset += self._length + 1
            self._head, self._length = bytearray(), 0
        offset = self._offset
        self._offset += sum(map(len, parts)) + len(parts)
        if last:
            self._add(last)
        return begun, offset, parts

    @property
    def pending(self) -> int:
        """Bytes of the unfinished line so far."""
        return self._length

    def skip(self, size: int) -> int:
        """Pass over `size` bytes of whole lines, where `pending` is 0; the offset where they begin."""
        offset, self._offset = self._offset, self._offset + size
        return offset

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        room = self._limit - len(self._head)
        if room > 0:
            self._head += part[:room]

    def close(self) -> list[Line]:
        """The unfinished last line, if there is one."""
        if not self._length:
            return []
        line = Line(self._offset, self._length, bytes(self._head), False)
        self._offset += self._length
        self._head, self._length = bytearray(), 0
        return [line]


class StampReader:
    """Takes the stamp off lines; remembers the last one, because most lines share theirs with their neighbours."""

    __slots__ = ("prefix", "time")

    def __init__(self) -> None:
        self.prefix = b"\n"  # the last stamp; no line begins with this one
        self.time = ""

    def split(self, data: bytes) -> tuple[str, bytes]:
        """Time (empty for a line without stamp, as in old traces) and payload."""
        prefix = data[:STAMP_SIZE]
        if prefix == self.prefix:
            return self.time, data[STAMP_SIZE:]
        match = _STAMP.fullmatch(prefix)
        if match is None:
            return "", data
        self.prefix, self.time = prefix, match[1].decode()
        return self.time, data[STAMP_SIZE:]


def stamp(time: str) -> bytes:
    """The stamp as bytes; `time` is `YYYY-MM-DDTHH:MM:SSZ`."""
    return b"[" + time.encode("ascii") + b"] "
