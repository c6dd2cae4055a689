import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.sandbox.egress import Policy, Upstream, rule
from ptb_tui.sandbox.gateway import Chain, Gateway
from ptb_tui.sandbox.ledger import Ledger

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


class World:
    """An origin, and gateways over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[bytes] = []
        self.port = 0
        self.stack = contextlib.AsyncExitStack()

    @property
    def socket(self) -> Path:
        return self.folder / "gw" / "gateway.sock"

    async def origin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            self.seen.append(await reader.readuntil(b"\r\n\r\n"))
            if self.seen[-1].startswith(b"CONNECT"):
                writer.write(b"HTTP/1.1 200 fine\r\n\r\n")
                self.seen.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(REPLY)
            await writer.drain()
            self.seen.append(await reader.read(65536))
        await hang_up(writer)

    async def gateway(self, policy: Policy, chain: Chain | None = None, connections: int = 512) -> Gateway:
        self.socket.parent.mkdir(exist_ok=True)
        gateway = Gateway(policy, Ledger(self.folder / "ledger"), chain or Chain(), connections=connections)
        await gateway.serve(self.socket)
        self.stack.push_async_callback(gateway.close)
        return gateway

    async def ask(self, *parts: bytes, end: bool = True) -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(self.socket))
        for part in parts:
            writer.write(part)
        if end:
            writer.write_eof()
        async with asyncio.timeout(30):
            answer = await reader.read()
        await hang_up(writer)
        return answer

    def ledger(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "ledger").read_text().splitlines()]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    server = await asyncio.start_server(world.origin, "127.0.0.1", 0)
    world.port = server.sockets[0].getsockname()[1]
    async with world.stack:
        yield world
    server.close()


def connect(place: str) -> bytes:
    return f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()


async def test_a_tunnel_is_carried_and_recorded(world: World) -> None:
    here = f"127.0.0.1:{world.port}"
    gateway = await world.gateway(Policy(allow=(rule(here),)))
    answer = await world.ask(connect(here), b"GET / HTTP/1.1\r\n\r\n")
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n" + REPLY
    await gateway.close()
    opened, ended = world.ledger()
    assert (opened["outcome"], ended["outcome"], opened["id"]) == ("open", "allowed", ended["id"])
    assert (ended["host"], ended["port"], ended["up"], ended["down"]) == ("127.0.0.1", world.port, 18, len(REPLY))


async def test_a_plain_request_is_carried(world: World) -> None:
    here = f"127.0.0.1:{world.port}"
    await world.gateway(Policy(also=(rule(here),)))
    assert await world.ask(f"GET http://{here}/x HTTP/1.1\r\nHost: other\r\n\r\n".encode()) == REPLY
    assert world.seen[0] == f"GET /x HTTP/1.1\r\nHost: {here}\r\nConnection: close\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("allow", "place"),
    [
        (None, "127.0.0.1:{port}"),
        (None, "localhost:{port}"),
        (None, "127.1:{port}"),
        (None, "0.0.0.0:{port}"),
        (None, "[::ffff:127.0.0.1]:{port}"),
        (None, "169.254.169.254:80"),
        (None, "metadata.google.internal:80"),
        (["127.0.0.1:1"], "127.0.0.1:{port}"),
        (["localhost:{port}"], "127.0.0.1:{port}"),
        (["*.example.org"], "example.org:443"),
        ([], "192.0.2.1:80"),
    ],
)
async def test_what_the_rules_close_is_refused_and_recorded(world: World, allow: list[str] | None, place: str) -> None:
    rules = None if allow is None else tuple(rule(text.format(port=world.port)) for text in allow)
    gateway = await world.gateway(Policy(allow=rules))
    assert (await world.ask(connect(place.format(port=world.port)))).startswith(b"HTTP/1.1 403 ")
    await gateway.close()
    assert [line["outcome"] for line in world.ledger()] == ["refused"] and not world.seen


async def test_an_address_of_the_host_itself_is_refused(world: World) -> None:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        own = probe.getsockname()[0]
    everywhere = await asyncio.start_server(world.origin, "0.0.0.0", 0)
    port = everywhere.sockets[0].getsockname()[1]
    await world.gateway(Policy())
    answer = await world.ask(connect(f"{own}:{port}"))
    everywhere.close()
    assert answer.startswith(b"HTTP/1.1 403 ") and not any(world.seen)


async def test_what_cannot_be_reached_fails(world: World) -> None:
    spare = await asyncio.start_server(world.origin, "127.0.0.1", 0)
    port = spare.sockets[0].getsockname()[1]
    spare.close()
    await spare.wait_closed()
    gateway = await world.gateway(Policy(allow=(rule(f"127.0.0.1:{port}"), rule("*.invalid"))))
    assert (await world.ask(connect(f"127.0.0.1:{port}"))).startswith(b"HTTP/1.1 502 ")
    assert (await world.ask(connect("no-such-host.invalid:443"))).startswith(b"HTTP/1.1 502 ")
    await gateway.close()
    assert [line["outcome"] for line in world.ledger()] == ["failed", "failed"]


async def test_hostile_clients_get_short_answers(world: World) -> None:
    gateway = await world.gateway(Policy())
    assert (await world.ask(b"A" * 200_000, end=False)).startswith(b"HTTP/1.1 431 ")
    assert (await world.ask(b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert (await world.ask(b"GET / HT")).startswith(b"HTTP/1.1 400 ")
    assert await world.ask(b"") == b""
    await gateway.close()
    assert [line["outcome"] for line in world.ledger()] == ["refused"] * 3


async def test_connections_are_bounded(world: World) -> None:
    await world.gateway(Policy(), connections=2)
    held = [await asyncio.open_unix_connection(str(world.socket)) for _ in range(2)]
    answer = await world.ask(connect("a.example:1"), end=False)
    assert answer.startswith(b"HTTP/1.1 503 ")
    for _, writer in held:
        await hang_up(writer)


async def test_the_sites_proxy_carries_what_is_allowed_and_nothing_else(world: World) -> None:
    proxy = Upstream("127.0.0.1", world.port, False, "Basic c2VjcmV0")
    gateway = await world.gateway(Policy(allow=(rule("*.invalid"),)), Chain(proxy, proxy, ["direct.invalid"]))
    answer = await world.ask(connect("far.invalid:443"), b"GET / HTTP/1.1\r\n\r\n")
    assert answer.endswith(REPLY)
    assert world.seen[0].startswith(b"CONNECT far.invalid:443 HTTP/1.1\r\n") and b"Basic c2VjcmV0" in world.seen[0]
    world.seen.clear()
    hidden = b"GET http://169.254.169.254/ HTTP/1.1\r\n\r\n"
    first = b"POST http://far.invalid/x HTTP/1.1\r\nContent-Length: 2\r\n\r\nab"
    assert await world.ask(first, hidden) == REPLY
    assert world.seen[0].startswith(b"POST http://far.invalid/x HTTP/1.1") and world.seen[1] == b"ab"
    world.seen.clear()
    chunked = b"POST http://far.invalid/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert (await world.ask(chunked, hidden)).startswith(b"HTTP/1.1 411 ")
    assert (await world.ask(connect("169.254.169.254:80"))).startswith(b"HTTP/1.1 403 ")
    assert (await world.ask(connect("direct.invalid:80"))).startswith(b"HTTP/1.1 502 ")
    assert not world.seen
    await gateway.close()
    assert b"c2VjcmV0" not in (world.folder / "ledger").read_bytes()
    assert {line["via"] for line in world.ledger() if line["outcome"] == "allowed"} == {"proxy"}


async def test_through_the_sites_proxy_loopback_stays_closed(world: World) -> None:
    proxy = Upstream("127.0.0.1", world.port, False, "")
    await world.gateway(Policy(), Chain(proxy, proxy))
    for place in ("localhost:80", "x.localhost:80", "127.0.0.1:80", "metadata:80"):
        assert (await world.ask(connect(place))).startswith(b"HTTP/1.1 403 "), place
    assert not world.seen


async def test_closing_completes_the_ledger(world: World) -> None:
    here = f"127.0.0.1:{world.port}"
    gateway = await world.gateway(Policy(allow=(rule(here),)))
    reader, writer = await asyncio.open_unix_connection(str(world.socket))
    writer.write(connect(here))
    await reader.readuntil(b"\r\n\r\n")
    await gateway.close()
    assert [line["outcome"] for line in world.ledger()] == ["open", "allowed"]
    assert world.ledger()[1]["reason"] == "the gateway was stopped"
    await hang_up(writer)


async def test_a_long_path_and_a_stale_socket_do(tmp_path: Path, world: World) -> None:
    world.folder = tmp_path / ("long ü" * 20)
    world.folder.mkdir()
    for _ in range(2):
        gateway = await world.gateway(Policy())
        assert world.socket.is_socket() and world.socket.stat().st_mode & 0o777 == 0o600
        assert [path.name for path in world.socket.parent.iterdir()] == ["gateway.sock"]
        await gateway.close()
