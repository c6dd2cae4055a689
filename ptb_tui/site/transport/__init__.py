"""Ways to get two byte streams to a far end (design §7). What flows in them is `site.wire`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Protocol

BLOCK = 64 << 10


class Channel(Protocol):
    """Two byte streams to a process that speaks the wire. One task reads; several may write, one after another."""

    async def read(self) -> bytes:
        """The next bytes; b"" once the other end is gone. Loses nothing when cancelled. Raises nothing."""
        ...

    async def write(self, data: bytes) -> None:
        """Send all of `data`, or nothing of it when cancelled while waiting; waits while the other end reads slowly.

        OSError when the other end is gone; `read` gives what it had still sent, then b"".
        """
        ...

    async def close(self) -> None:
        """End both streams, and within seconds the process behind them; idempotent."""
        ...

    async def epitaph(self) -> str:
        """How it ended, for people: what was started, its exit status, its last words. To be asked after the end."""
        ...


Connect = Callable[[], Awaitable[Channel]]


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Descriptors:
    """A channel over two file descriptors (pipes, a socket, a terminal), which it makes non-blocking and owns.

    Not the event loop's pipe transports: those take a readable stdout for a closed one, and where sshd gives one socket
    for both directions it is readable at each request.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._pending = bytearray()
        self._waiting: set[asyncio.Future[None]] = set()
        self._gone = self._closed = False
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)

    async def read(self) -> bytes:
        """See `Channel`."""
        while not self._closed:
            try:
                return os.read(self._reading, BLOCK)
            except BlockingIOError:
                if self._gone:  # not before: its last words may still be in the pipe
                    break
                loop = asyncio.get_running_loop()
                await self._ready(self._reading, loop.add_reader, loop.remove_reader)
            except OSError:
                break
        return b""

    async def write(self, data: bytes) -> None:
        """See `Channel`. What a cancelled call has begun goes out before the next one's bytes."""
        self._pending += data
        while self._pending:
            if self._gone:
                raise BrokenPipeError("the other end is gone")
            try:
                with memoryview(self._pending)[: 4 * BLOCK] as head:
                    sent = os.write(self._writing, head)
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await self._ready(self._writing, loop.add_writer, loop.remove_writer)
            except OSError:
                self._end()
                raise
            else:
                del self._pending[:sent]

    async def _ready(self, fd: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
        """Wait until `fd` can be used, or the channel has ended."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        add(fd, _finish, future)
        try:
            await future
        finally:
            self._waiting.discard(future)
            if not self._closed:  # else the number may already be another file's
                remove(fd)

    def _end(self) -> None:
        self._gone = True
        for future in self._waiting:
            _finish(future)

    async def close(self) -> None:
        """See `Channel`."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._reading)
        loop.remove_writer(self._writing)
        self._closed = True
        self._end()
        for fd in {self._reading, self._writing}:
            os.close(fd)

    async def epitaph(self) -> str:
        """Nothing is known about the other end."""
        return ""
