"""Files that grow together on a file system that may fail, fill up or change under us. Standard library alone.

One process writes them. What was not yet flushed to the disk is kept in memory, so that after any error the files are
opened again, cut to what is certain and written on; nothing is lost or doubled.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds


class Lost(Exception):
    """A file has less than was flushed to it: everything must be written again from the beginning."""


class Outputs:
    """Appends to several files. No method raises OSError: they try for ever, telling `trouble` why."""

    def __init__(
        self,
        paths: Sequence[Path],
        sizes: Sequence[int],
        trouble: Callable[[str], None],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._paths = tuple(paths)
        self._certain = list(sizes)  # bytes flushed to the disk
        self._buffers = [bytearray() for _ in paths]  # what comes after them
        self._written = [0 for _ in paths]  # how much of each buffer is in its file
        self._fds: list[int] = []
        self._trouble, self._pause = trouble, pause
        self.busy_since: float | None = None  # monotonic; read by another thread to notice a hanging file system

    @property
    def sizes(self) -> list[int]:
        """The sizes of the files, including what is not flushed yet."""
        return [size + len(buffer) for size, buffer in zip(self._certain, self._buffers, strict=True)]

    @property
    def waiting(self) -> int:
        """Bytes in memory that are not flushed yet."""
        return sum(map(len, self._buffers))

    def open(self) -> None:
        """Open the files and cut them to their sizes. Lost when one is shorter."""
        self._try_for_ever(flush=False)

    def append(self, parts: Sequence[bytes]) -> None:
        """Append one part to each file."""
        for buffer, part in zip(self._buffers, parts, strict=True):
            buffer += part
        self._try_for_ever(flush=False)

    def sync(self) -> None:
        """Flush everything to the disk."""
        self._try_for_ever(flush=True)
        self._certain = self.sizes
        for index, buffer in enumerate(self._buffers):
            buffer.clear()
            self._written[index] = 0

    def close(self) -> None:
        """Close the files."""
        fds, self._fds = self._fds, []
        for fd in fds:
            try:
                os.close(fd)
            except OSError as error:  # NFS may report a failed write here; every flush before it was confirmed
                self._trouble(_words(error))

    def _try_for_ever(self, *, flush: bool) -> None:
        delay = FIRST_PAUSE
        while True:
            self.busy_since = time.monotonic()
            try:
                if not self._fds:
                    self._open()
                self._write()
                if flush:
                    for fd in self._fds:
                        os.fdatasync(fd)
                return
            except OSError as error:
                self._trouble(_words(error))
                self.close()
            finally:
                self.busy_since = None
            self._pause(delay)
            delay = min(2 * delay, LONGEST_PAUSE)

    def _open(self) -> None:
        self._written = [0 for _ in self._paths]
        for path, size in zip(self._paths, self._certain, strict=True):
            fd = os.open(path, _FLAGS, 0o644)
            self._fds.append(fd)
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            if info.st_size < size:
                raise Lost(f"{path} has {info.st_size} bytes of {size}")
            os.ftruncate(fd, size)

    def _write(self) -> None:
        for index, (fd, buffer) in enumerate(zip(self._fds, self._buffers, strict=True)):
            with memoryview(buffer) as view:
                while self._written[index] < len(view):
                    start = self._written[index]
                    self._written[index] += os.pwrite(fd, view[start:], self._certain[index] + start)


def _words(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
