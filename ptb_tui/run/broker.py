"""The credential broker of one sandbox: answers a CLI's renewals like the vendor would, without ever giving away what
renews (design §5). Part of the companion; standard library alone.

A `POST` on an unguessable path, as the CLI sends it to its vendor's token endpoint, is answered with the site's access
token and a placeholder for the refresh token. The placeholder tells which access token its holder has, so that many
who ask at once make one request upstream, and who comes late finds the others' result. Everybody in the sandbox may
ask: whatever they say, the vendor is asked when the token ends, and at most once in ten minutes before.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import socket
import sys
import time
import urllib.parse
from http import HTTPStatus
from pathlib import Path
from typing import Any

from ptb_tui.core import files
from ptb_tui.run.renewing import Broker, due, seen_by
from ptb_tui.supplies import credentials, leases
from ptb_tui.supplies.logins import LEAST_TOKEN, Login, placeholder

HEAD_BYTES = 1 << 14
BODY_BYTES = 1 << 16
ASK_S = 10.0  # to send a request
LONGEST_S = 55.0  # until an answer; CLIs wait a minute
MOST = 16  # requests at once
LOOK_S = 0.2
RETRY_S = 2.0  # after a renewal that failed for now; twice as long each time
LONGEST_RETRY_S = 60.0
SECRETS = "secrets.json"
HOLDER_S = 20.0  # that the lock's holder is relied on; a renewal of ours can tell whether it is gone
MOST_SECRETS = 256  # tokens that are kept to be redacted; those that ended long ago go first
SECRET_BYTES = 4 << 20


class _No(Exception):
    """The answer to a request that is not served."""

    def __init__(self, status: HTTPStatus, error: str) -> None:
        super().__init__(error)
        self.status, self.error = status, error


class CredentialBroker:
    """Serves one sandbox. `renewal` is the command line that renews, without the mark of the token that was seen."""

    def __init__(self, settings: Broker, scratch: Path, renewal: list[str]) -> None:
        self._settings, self._scratch, self._renewal = settings, scratch, renewal
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._renewing: asyncio.Task[int] | None = None
        self._held = (0, 0.0)
        self._again, self._pause = 0.0, RETRY_S
        self._busy = 0

    async def serve(self, fd: int | None = None) -> None:
        """Listen at the host's loopback if told to, on the socket `fd` if there is one. OSError when the port is
        somebody else's: to be tried again."""
        if self._settings.listen:
            listening = socket.socket(fileno=fd) if fd is not None else bound(self._settings.port)
            listening.setblocking(False)
            self._server = await asyncio.start_server(self.handle, sock=listening, limit=HEAD_BYTES)

    async def close(self) -> None:
        """Stop listening; a renewal that was begun goes on by itself."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end; the gateway hands over those of a sandbox with a network of its own."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._busy += 1
        try:
            async with asyncio.timeout(ASK_S + LONGEST_S + 5):
                status, body = await self._answer(reader)
                _say(writer, status, body)
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self._busy -= 1
            self._tasks.discard(task)
            with contextlib.suppress(OSError):
                writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[HTTPStatus, dict[str, Any]]:
        try:
            if self._busy > MOST:
                raise _No(HTTPStatus.SERVICE_UNAVAILABLE, "temporarily_unavailable")
            async with asyncio.timeout(ASK_S):
                asked = await _request(reader, self._settings.secret)
            if "grant_type" not in asked:
                return HTTPStatus.OK, {}  # a CLI that logs out: nothing is revoked, the login is everybody's
            if asked.get("grant_type") != "refresh_token":
                raise _No(HTTPStatus.BAD_REQUEST, "unsupported_grant_type")
            return HTTPStatus.OK, await self._token(str(asked.get("refresh_token") or ""))
        except _No as no:
            return no.status, {"error": no.error}
        except TimeoutError:
            return HTTPStatus.REQUEST_TIMEOUT, {"error": "invalid_request"}
        except (ValueError, asyncio.LimitOverrunError):
            return HTTPStatus.BAD_REQUEST, {"error": "invalid_request"}

    async def _token(self, refresh_token: str) -> dict[str, Any]:
        """A good access token for somebody who has the one of this placeholder. _No when there is none for now."""
        seen, limit = seen_by(refresh_token), time.monotonic() + LONGEST_S
        while time.monotonic() < limit:
            login = credentials.current(self._settings.login, self._settings.state)
            if login is None:
                raise _No(HTTPStatus.SERVICE_UNAVAILABLE, "temporarily_unavailable")
            if not due(login, seen):
                return self._hand_out(login)
            if credentials.refusal(self._settings.state, login):
                raise _No(HTTPStatus.UNAUTHORIZED, "invalid_grant")
            if self._renewing is not None or time.monotonic() >= self._again:
                if self._renewing is None and self._others():
                    await asyncio.sleep(LOOK_S)  # somebody is at it: what they get is ours too
                    continue
                if await self._renew(seen) == 3:
                    raise _No(HTTPStatus.UNAUTHORIZED, "invalid_grant")
            else:
                await asyncio.sleep(LOOK_S)
        raise _No(HTTPStatus.SERVICE_UNAVAILABLE, "temporarily_unavailable")

    def _others(self) -> bool:
        """Whether somebody renews already; not for ever, because a lock may be torn or its holder's machine gone."""
        held = leases.Lease(self._settings.state).look()
        if held.number != self._held[0]:
            self._held = (held.number, time.monotonic())
        return not held.free and time.monotonic() - self._held[1] < HOLDER_S

    async def _renew(self, seen: str) -> int:
        """One renewal for everybody of this sandbox who waits."""
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._run_renewal(seen))
            self._renewing.add_done_callback(self._renewed)
        return await asyncio.shield(self._renewing)

    def _renewed(self, task: asyncio.Task[int]) -> None:
        self._renewing = None
        if task.cancelled() or task.exception() is not None or task.result() == 1:
            self._again, self._pause = time.monotonic() + self._pause, min(2 * self._pause, LONGEST_RETRY_S)
        else:
            self._pause = RETRY_S

    async def _run_renewal(self, seen: str) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._renewal, seen, stdin=asyncio.subprocess.DEVNULL, cwd="/", start_new_session=True
        )
        return await process.wait()

    def _hand_out(self, login: Login) -> dict[str, Any]:
        """The answer to the CLI. What is handed out is to be redacted before it can be printed."""
        self._note(login)
        answer = {"access_token": login.access, "refresh_token": placeholder(login.access), "token_type": "Bearer"}
        if login.identity:
            answer["id_token"] = login.identity
        return answer

    def _note(self, login: Login) -> None:
        path = self._scratch / SECRETS
        known = (files.read_object(path) or {}).get("secrets")
        secrets = {str(name): str(value) for name, value in known.items()} if isinstance(known, dict) else {}
        new = [token for token in (login.access, login.identity) if len(token) >= LEAST_TOKEN]
        fresh = [token for token in new if token not in secrets.values()]
        if fresh:
            numbers = [int(name[6:]) for name in secrets if name.startswith("login-") and name[6:].isdigit()]
            for number, token in enumerate(fresh, max(numbers, default=0) + 1):
                secrets[f"login-{number}"] = token
            while len(secrets) > MOST_SECRETS or (len(secrets) > 2 and sum(map(len, secrets.values())) > SECRET_BYTES):
                del secrets[next((name for name in secrets if name.startswith("login-")), next(iter(secrets)))]
            try:
                files.replace(path, credentials.dump_secrets(secrets), mode=0o600)
            except OSError as error:
                print(f"broker: {path}: {error.strerror}", file=sys.stderr, flush=True)
                raise _No(HTTPStatus.SERVICE_UNAVAILABLE, "temporarily_unavailable") from error


def bound(port: int) -> socket.socket:
    """A socket bound to a port of the host's loopback. OSError."""
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(("127.0.0.1", port))
    except OSError:
        found.close()
        raise
    return found


async def _request(reader: asyncio.StreamReader, secret: str) -> dict[str, Any]:
    """The fields of a request on our path, JSON or a form. _No or ValueError for anything else."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = head.split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not hmac.compare_digest(words[1].encode(), secret.encode()):
        raise _No(HTTPStatus.NOT_FOUND, "not_found")
    if words[0] != "POST":
        raise _No(HTTPStatus.METHOD_NOT_ALLOWED, "invalid_request")
    fields = dict(
        (name.strip().lower(), value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon
    )
    length = fields.get("content-length", "")
    if not length.isdigit() or len(length) > 9:
        raise _No(HTTPStatus.LENGTH_REQUIRED, "invalid_request")
    if int(length) > BODY_BYTES:
        raise _No(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "invalid_request")
    body = await reader.readexactly(int(length))
    if fields.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return dict(urllib.parse.parse_qsl(body.decode("utf-8", "replace"), max_num_fields=32))
    try:
        found = json.loads(body or b"{}")
    except RecursionError as error:
        raise ValueError("too deep") from error
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _say(writer: asyncio.StreamWriter, status: HTTPStatus, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
