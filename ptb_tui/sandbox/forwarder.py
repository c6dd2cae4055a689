"""Inside a sandbox without network: loopback ports that lead to the gateway's Unix socket; then the command.

    python3 -I -S forwarder.py --socket PATH --port N [--reach N ...] -- COMMAND [ARGUMENT ...]

Takes its ports first, hands them to a child that belongs to nobody, and becomes the command itself: exit status,
signals and standard streams are the command's, and if the child dies the command goes on without a network. Connections
to `--port` are passed on as they are; those to a `--reach` port arrive at the same port of the host's loopback, when
the gateway allows it. Runs in images: Python 3.10, standard library alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
CHUNK = 65536
POLITE = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)  # sent to everything inside, they do not take the network away
PATIENCE = 15.0  # seconds that a connection waits for a gateway that is being restarted


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies until the end of one direction, and passes the end on."""
    with contextlib.suppress(OSError):
        while True:
            data = await reader.read(CHUNK)
            if not data:
                break
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()


async def dial(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """Connects to the gateway; None when it stays away."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while True:
        try:
            return await asyncio.open_unix_connection(path)
        except OSError:
            if loop.time() >= until:
                return None
            await asyncio.sleep(0.1)


async def enter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> bool:
    """Asks the gateway for a port of the host's loopback; False when it is refused."""
    writer.write(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (port, port))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return False
    return head.split(b" ", 2)[1:2] == [b"200"]


def handler(path: str, port: int) -> Handler:
    """The callback for one listening socket; `port` is 0 for the proxy itself."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            streams = await dial(path)
            if streams is None:
                if not port:
                    writer.write(b"HTTP/1.1 503 The gateway is away\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
                return
            there, away = streams
            with contextlib.closing(away):
                if not port or await enter(there, away, port):
                    await asyncio.gather(pump(reader, away), pump(there, writer))

    return handle


async def serve(path: str, listeners: list[tuple[int, int]]) -> None:
    """Serves until the sandbox ends."""
    servers = []
    for fd, port in listeners:
        listening = socket.socket(fileno=fd)
        listening.setblocking(False)
        servers.append(await asyncio.start_server(handler(path, port), sock=listening))
    await asyncio.gather(*(server.serve_forever() for server in servers))


def listen(port: int) -> socket.socket:
    """A listening socket on loopback that survives exec."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(256)
    listening.set_inheritable(True)
    return listening


def detach(path: str, listeners: list[tuple[socket.socket, int]]) -> None:
    """Starts the serving program as a child of nobody, under words of its own: `pkill -f` of a word of the command
    must not end the network (case A01), so it does not keep the command's arguments.
    """
    ready, held = os.pipe()  # its end closes when the child has become the serving program, or is dead
    first = os.fork()
    if first:
        os.close(held)
        os.waitpid(first, 0)
        os.read(ready, 1)
        os.close(ready)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in POLITE:
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    words = [sys.executable, "-I", "-S", os.path.abspath(__file__), "--socket", path]
    for listening, port in listeners:
        words += ["--serve", f"{listening.fileno()}:{port}"]
    try:
        os.execve(sys.executable, words, {})
    finally:
        os._exit(127)


def become(command: list[str]) -> int:
    """Turns this process into the command, with the signals Python changed put back."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


def main(argv: list[str]) -> int:
    """Parses the words before `--` and becomes what is after it."""
    end = argv.index("--") if "--" in argv else len(argv)
    command = argv[end + 1 :]
    parser = argparse.ArgumentParser(prog="forwarder.py")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--port", type=int, default=3128)
    parser.add_argument("--reach", type=int, action="append", default=[])
    parser.add_argument("--serve", action="append", default=[])
    options = parser.parse_args(argv[:end])
    if options.serve:
        pairs = [(int(fd), int(port)) for fd, port in (word.split(":") for word in options.serve)]
        asyncio.run(serve(options.socket, pairs))
        return 0
    if not command:
        parser.error("no command after --")
    listeners = []
    for port in dict.fromkeys([options.port, *options.reach]):
        try:
            listeners.append((listen(port), 0 if port == options.port else port))
        except OSError as error:
            sys.stderr.write(f"forwarder: port {port}: {error.strerror}\n")
    if listeners:
        detach(options.socket, listeners)
    for listening, _ in listeners:
        listening.close()
    return become(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
