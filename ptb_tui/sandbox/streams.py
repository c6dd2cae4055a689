"""What a gateway does with open streams: listen, copy both ways, go through the site's proxy, end politely."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

from ptb_tui.sandbox.egress import Upstream
from ptb_tui.sandbox.proxying import Bad, Head, read_head

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

CHUNK = 65536  # small: 512 connections of a hostile client hold at most some 100 MB
CONNECT_S = 20.0  # for one address
IDLE_S = 3600.0  # models think long without a byte
LINGER_S = 300.0  # once one side has ended
TICK_S = 15.0


class Failed(Exception):
    """The network says no."""


async def relay(client: Streams, away: Streams, entry: dict[str, Any], *, most_up: int | None = None) -> None:
    """Copy both ways until both have ended or one breaks; counts bytes in `entry` as they pass.

    With `most_up` no more than that many bytes of the client are passed on. OSError when it breaks or stays idle.
    """
    moved = time.monotonic()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
        nonlocal moved
        while data := await reader.read(CHUNK):
            if key == "up" and most_up is not None:
                data = data[: most_up - entry[key]]
                if not data:
                    return
            entry[key] += len(data)
            moved = time.monotonic()
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    waiting = {
        asyncio.create_task(copy(client[0], away[1], "up")),
        asyncio.create_task(copy(away[0], client[1], "down")),
    }
    ended = False
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                ended = True
                task.result()
            if waiting and time.monotonic() - moved > (LINGER_S if ended else IDLE_S):
                raise TimeoutError("idle")
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def through(upstream: Upstream, head: Head) -> Streams:
    """A connection through the site's proxy, ready for the request. Failed when it refuses."""
    tls = ssl.create_default_context() if upstream.tls else None
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(upstream.host, upstream.port, limit=CHUNK, ssl=tls)
    except (OSError, TimeoutError) as error:
        raise Failed(f"the site's proxy cannot be reached: {type(error).__name__}") from error
    if not head.tunnel:
        return reader, writer
    try:
        writer.write(head.connect_words(upstream))
        async with asyncio.timeout(CONNECT_S):
            said = await read_head(reader)
    except (OSError, TimeoutError, Bad) as error:
        await shut(writer)
        raise Failed(f"the site's proxy does not answer: {type(error).__name__}") from error
    status = (said or b"").split(b" ", 2)[1:2]
    if status != [b"200"]:
        await shut(writer)
        raise Failed(f"the site's proxy says {b''.join(status)[:3].decode('ascii', 'replace') or 'nothing'}")
    return reader, writer


def answer(writer: asyncio.StreamWriter, status: HTTPStatus, text: str) -> None:
    """A short plain answer; the connection ends after it."""
    body = text.encode("ascii", "backslashreplace") + b"\n"
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    with contextlib.suppress(OSError, RuntimeError):
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)


async def hear_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read a little more before closing: a socket closed over unread bytes takes the answer with it."""
    with contextlib.suppress(OSError, RuntimeError, TimeoutError):
        writer.write_eof()
        async with asyncio.timeout(2):
            for _ in range(64):
                if not await reader.read(CHUNK):
                    return


async def shut(writer: asyncio.StreamWriter) -> None:
    """Close; what the peer does not take within seconds is dropped."""
    writer.close()
    with contextlib.suppress(OSError, TimeoutError, ssl.SSLError):
        async with asyncio.timeout(5):
            await writer.wait_closed()
    writer.transport.abort()


def listen(path: Path) -> socket.socket:
    """A listening Unix socket at `path`, readable by its owner only, put in place of whatever was there.

    The folder is entered by descriptor, so paths longer than the 107 bytes of a socket address work.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        hidden = f".{path.name}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hidden, dir_fd=folder)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listening.bind(f"/proc/self/fd/{folder}/{hidden}")
        os.chmod(hidden, 0o600, dir_fd=folder)
        listening.listen(256)
        os.rename(hidden, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)
    return listening
