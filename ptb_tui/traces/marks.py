"""When the bytes of a growing file arrived: marks (size, time) on the node's own disk. Standard library alone.

The stamp of a line is the time of the first mark whose size reaches the line's end. Marks are only appended, so a
stamp never changes, however often and however late the line is written.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

_MARK = struct.Struct("<Qq")  # size in bytes; Unix time in microseconds, negative where nobody had been reading
_BLOCK = 4096 * _MARK.size


class MarkWriter:
    """The only writer of a mark file. The first mark of each writer is late: its bytes came while nobody read."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        whole = os.fstat(self._fd).st_size // _MARK.size * _MARK.size
        os.ftruncate(self._fd, whole)  # a kill may have torn the last one
        self._end = whole
        self.size = _last_size(self._fd, whole)
        self._late = True

    def look(self, raw: Path, now: float | None = None) -> bool:
        """Mark what has arrived since the last look; whether anything had. OSError when the disk refuses."""
        try:
            info = os.stat(raw)
        except FileNotFoundError:
            self._late = False
            return False
        late, self._late = self._late, self._late and info.st_size > self.size
        if info.st_size <= self.size:
            return False
        when = time.time() if now is None else now
        if late:  # the last write is the latest that any of them can have come
            when = min(when, info.st_mtime)
        micro = max(1, int(when * 1e6))
        os.pwrite(self._fd, _MARK.pack(info.st_size, -micro if late else micro), self._end)
        self._end += _MARK.size
        self.size = info.st_size
        self._late = False
        return True

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def _last_size(fd: int, whole: int) -> int:
    if not whole:
        return 0
    size: int = _MARK.unpack(os.pread(fd, _MARK.size, whole - _MARK.size))[0]
    return size


class MarkReader:
    """Answers for ascending positions which mark reaches them; holds one block of marks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._next = 0  # where the next block begins
        self._block: list[tuple[int, int]] = []
        self._at = 0

    def _file(self) -> int | None:
        if self._fd is None:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
        return self._fd

    def known(self) -> int:
        """How many bytes of the marked file have a time."""
        fd = self._file()
        if fd is None:
            return 0
        return _last_size(fd, os.fstat(fd).st_size // _MARK.size * _MARK.size)

    def reach(self, end: int) -> tuple[int, str]:
        """Size and time (`YYYY-MM-DDTHH:MM:SSZ`) of the first mark with size >= `end`, which must be at most
        `known()` and not less than in earlier calls."""
        while True:
            while self._at < len(self._block):
                size, micro = self._block[self._at]
                if size >= end:
                    return size, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(abs(micro) // 1_000_000))
                self._at += 1
            self._block, self._at = self._read(), 0
            if not self._block:
                raise LookupError(f"no mark reaches byte {end}")

    def _read(self) -> list[tuple[int, int]]:
        fd = self._file()
        data = os.pread(fd, _BLOCK, self._next) if fd is not None else b""
        whole = len(data) // _MARK.size * _MARK.size
        self._next += whole
        return list(_MARK.iter_unpack(data[:whole]))

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def late_ranges(path: Path) -> list[tuple[int, int]]:
    """Ranges of bytes that arrived while nobody read: their lines carry a later time than they should."""
    ranges: list[tuple[int, int]] = []
    before = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            for size, micro in _MARK.iter_unpack(block[: len(block) // _MARK.size * _MARK.size]):
                if micro < 0 and size > before:
                    if ranges and ranges[-1][1] == before:
                        ranges[-1] = (ranges[-1][0], size)
                    else:
                        ranges.append((before, size))
                before = max(before, size)
    return ranges
