"""The gateway: an HTTP proxy on a Unix socket, the only way out of a sandbox without a network of its own.

Speaks CONNECT and plain HTTP with absolute URIs. Every request ends in the ledger, refused ones too. The client is
hostile: heads are bounded in size and time, connections in number and idleness, names are looked up once and the
address that was checked is the one that is connected to. Standard library alone.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from ptb_tui.sandbox.egress import Policy, Upstream, bypasses, literal
from ptb_tui.sandbox.ledger import Ledger, record
from ptb_tui.sandbox.proxying import Bad, Head, parse, read_head
from ptb_tui.sandbox.streams import (
    CHUNK,
    CONNECT_S,
    Failed,
    Streams,
    answer,
    hear_out,
    listen,
    relay,
    shut,
    through,
)

Service = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

LOOKUP_S = 20.0
CHAIN_LOOKUP_S = 3.0  # the site's proxy looks names up itself; ours only has to see what is forbidden
FLUSH_S = 60.0
EXTRA = 64  # connections above the limit that are told so


class Refused(Exception):
    """The rules say no."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The site's proxies for the two kinds of request, and what goes past them."""

    connect: Upstream | None = None
    plain: Upstream | None = None
    no_proxy: Sequence[str] = ()

    def for_request(self, head: Head) -> Upstream | None:
        """The proxy for this request; None means straight on."""
        chosen = self.connect if head.tunnel else self.plain
        return None if chosen is None or bypasses(self.no_proxy, head.host) else chosen


class Gateway:
    """One gateway of one sandbox. `serve` listens, `close` ends everything and completes the ledger.

    `services` are ports of 127.0.0.1 that our own process serves to this sandbox, whatever the policy says.
    """

    def __init__(
        self,
        policy: Policy,
        ledger: Ledger,
        chain: Chain,
        *,
        connections: int = 512,
        services: Mapping[int, Service] | None = None,
    ) -> None:
        self._services = dict(services or {})
        self._policy = policy
        self._ledger = ledger
        self._chain = chain
        self._most = connections
        self._tasks: set[asyncio.Task[Any]] = set()
        self._servers: list[asyncio.Server] = []
        self._flusher: asyncio.Task[None] | None = None

    async def serve(self, path: Path) -> None:
        """Listen at `path` and return. A stale socket there is replaced in one step, so no client finds a gap."""
        listening = listen(path)
        self._servers.append(await asyncio.start_unix_server(self._accept, sock=listening, limit=CHUNK))
        self._flusher = asyncio.create_task(self._flush())

    async def close(self) -> None:
        """Stop listening, cut what is open, write its records."""
        for server in self._servers:
            server.close()
        for task in (self._flusher, *self._tasks):
            if task is not None:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        self._ledger.close()

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            self._ledger.flush()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        before = len(self._tasks)
        self._tasks.add(task)
        try:
            if before < self._most:
                await self._request(reader, writer)
            else:
                self._ledger.add(record(self._ledger, "", "", 0) | {"outcome": "refused", "reason": "too many at once"})
                if before < self._most + EXTRA:  # so many more are told why
                    answer(writer, HTTPStatus.SERVICE_UNAVAILABLE, "too many connections at once")
                    await hear_out(reader, writer)
        except asyncio.CancelledError:
            pass  # only `close` cancels, and the record is written
        finally:
            self._tasks.discard(task)
            await shut(writer)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        entry = record(self._ledger, "", "", 0)
        begun = time.monotonic()
        entry["outcome"], entry["reason"] = "failed", "the gateway was stopped"
        try:
            raw = await read_head(reader)
            if raw is None:
                entry["outcome"] = ""  # came and went without a word: nothing was asked, nothing is recorded
                return
            head = parse(raw)
            entry |= {"method": head.method, "host": head.host, "port": head.port}
            if head.tunnel and head.host == "127.0.0.1" and (service := self._services.get(head.port)) is not None:
                entry["outcome"], entry["reason"] = "allowed", ""
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await service(reader, writer)
                return
            away, upstream = await self._reach(head)
            try:
                entry["via"] = "proxy" if upstream else ""
                self._ledger.add(entry | {"outcome": "open", "reason": ""})
                entry["outcome"] = "allowed"
                await self._pass(head, upstream, (reader, writer), away, entry)
            finally:
                await shut(away[1])
            entry["reason"] = ""
        except Bad as error:
            entry["outcome"], entry["reason"] = "refused", str(error)
            answer(writer, error.status, str(error))
            await hear_out(reader, writer)
        except Refused as error:
            entry["outcome"], entry["reason"] = "refused", str(error)
            answer(writer, HTTPStatus.FORBIDDEN, f"{entry['host']}:{entry['port']} is closed: {error}")
            await hear_out(reader, writer)
        except Failed as error:
            entry["reason"] = str(error)[:200]
            answer(writer, HTTPStatus.BAD_GATEWAY, entry["reason"])
            await hear_out(reader, writer)
        except (OSError, EOFError) as error:
            entry["reason"] = f"the connection broke: {error}"[:200]
        finally:
            if entry["outcome"]:
                self._ledger.add(entry | {"seconds": round(time.monotonic() - begun, 3)})

    async def _reach(self, head: Head) -> tuple[Streams, Upstream | None]:
        """An open connection to the host, or to the site's proxy that leads there."""
        reason = self._policy.refusal(head.host, head.port)
        if reason:
            raise Refused(reason)
        upstream = self._chain.for_request(head)
        if upstream and not head.tunnel and head.length is None:
            # Behind the body the client could hide a second request, which the site's proxy would carry anywhere.
            raise Bad("a plain request through the site's proxy needs a Content-Length", HTTPStatus.LENGTH_REQUIRED)
        addresses = await self._addresses(head, CHAIN_LOOKUP_S if upstream else LOOKUP_S)
        reasons = [self._unreachable(head, text) for text in addresses]
        if upstream is None or self._opened_here(head, addresses):
            return await self._connect(head, addresses), None
        if head.host == "localhost" or head.host.endswith(".localhost") or any(reasons):
            raise Refused(next(filter(None, reasons), "the host's loopback"))
        return await through(upstream, head), upstream

    async def _addresses(self, head: Head, patience: float) -> list[str]:
        if literal(head.host) is not None:
            return [head.host]
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patience):
                found = await loop.getaddrinfo(head.host, head.port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError, UnicodeError):
            return []
        return list(dict.fromkeys(str(item[4][0]).partition("%")[0] for item in found))

    def _opened_here(self, head: Head, addresses: list[str]) -> bool:
        """Whether a rule names one of these addresses: such a place is near this host, not behind the site's proxy."""
        known = (literal(text) for text in addresses)
        return any(address is not None and self._policy.pinned(head.host, head.port, address) for address in known)

    def _unreachable(self, head: Head, text: str) -> str:
        address = literal(text)
        return "no address" if address is None else self._policy.reachable(head.host, head.port, address)

    async def _connect(self, head: Head, addresses: list[str]) -> Streams:
        if not addresses:
            raise Failed(f"{head.host} has no address")
        last = ""
        refusals = []
        for text in addresses[:8]:
            reason = self._unreachable(head, text)
            if reason:
                refusals.append(reason)
                continue
            try:
                async with asyncio.timeout(CONNECT_S):
                    streams = await asyncio.open_connection(text, head.port, limit=CHUNK)
            except (OSError, TimeoutError) as error:
                last = f"{head.host}:{head.port} cannot be reached: {error or 'no answer'}"
                continue
            if self._is_this_host(head, streams[1]):
                await shut(streams[1])
                refusals.append("an address of the host itself")
                continue
            return streams
        raise Failed(last) if last else Refused(refusals[0])

    def _is_this_host(self, head: Head, writer: asyncio.StreamWriter) -> bool:
        """A connection whose ends have one address never left this machine: its open ports are not for the sandbox."""
        here, there = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
        address = literal(str(there[0]).partition("%")[0]) if there else None
        if not here or address is None or here[0] != there[0]:
            return False
        return not self._policy.pinned(head.host, head.port, address)

    async def _pass(
        self, head: Head, upstream: Upstream | None, client: Streams, away: Streams, entry: dict[str, Any]
    ) -> None:
        if head.tunnel:
            client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            away[1].write(head.forwarded(upstream))
        await relay(client, away, entry, most_up=head.length if upstream and not head.tunnel else None)
