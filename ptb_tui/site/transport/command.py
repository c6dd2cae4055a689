"""Two byte streams by a command: the system's `ssh`, `kubectl exec -i`, `sudo -niu NAME` … (design §7)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from typing import IO

from ptb_tui.core.errors import SiteUnreachable
from ptb_tui.core.text import sanitize
from ptb_tui.site.transport import Descriptors

STDERR_TAIL = 2 << 10
END_S = 2.0  # from the end of stdin to TERM, and from TERM to KILL
KILLED_S = 10.0  # from KILL to the end, on a machine that swaps
_POLL_S = 0.02


def _own(file: IO[bytes] | None) -> int:
    """The descriptor behind one of the process's pipes, taken from it."""
    assert file is not None
    with file:
        return os.dup(file.fileno())


class CommandChannel:
    """A channel to a subprocess; made by `open_command`. Its stderr is read and its last 2 KiB are kept."""

    def __init__(self, argv: Sequence[str], process: subprocess.Popen[bytes], end_s: float) -> None:
        self._argv = tuple(argv)
        self._end_s = end_s
        self._process = process
        stderr = _own(process.stderr)
        self._streams = Descriptors(_own(process.stdout), _own(process.stdin))
        self._errors = Descriptors(stderr, stderr)
        self._tail = bytearray()
        self._draining = asyncio.create_task(self._drain())
        self._closing: asyncio.Task[None] | None = None
        self.read = self._streams.read
        self.write = self._streams.write

    @property
    def pid(self) -> int:
        """Process id of the command (of `ssh`, not of what runs behind it)."""
        return self._process.pid

    async def _drain(self) -> None:
        while data := await self._errors.read():
            self._tail += data
            del self._tail[:-STDERR_TAIL]

    async def close(self) -> None:
        """End stdin, wait 2 s, TERM, wait 2 s, KILL. Goes on to its end even when the caller is cancelled."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        await self._streams.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._exited():
                break
            # the command leads a session of its own, so this reaches what a wrapper started, and nobody else
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
        await self._exited(KILLED_S)
        await self._said()
        await self._errors.close()
        await self._draining

    async def _exited(self, end_s: float = 0.0) -> bool:
        """Whether it has ended, after waiting a while for it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + max(end_s, self._end_s)
        while self._process.poll() is None and loop.time() < until:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(_POLL_S)
        return self._process.returncode is not None

    async def _said(self) -> None:
        """Wait a moment for the end of stderr; it may stay open in others' hands (an ssh master)."""
        await asyncio.wait([self._draining], timeout=0.2)

    async def epitaph(self) -> str:
        """The command, how it ended, and what it last said on stderr."""
        await self._exited()
        await self._said()
        code = self._process.returncode
        if code is None:
            how = "gives no answer"
        elif code < 0:
            how = f"was killed by signal {-code}"
        else:
            how = f"ended with status {code}"
        said = sanitize(bytes(self._tail)).strip()
        return f"`{shlex.join(self._argv)}` {how}" + (f"; it said: {said}" if said else "")


async def open_command(argv: Sequence[str], *, end_s: float = END_S) -> CommandChannel:
    """Start the command. SiteUnreachable when it cannot be started. `end_s` is how long it may take to end, each time.

    It gets a session of its own: an interrupt typed at our terminal does not end the link, and it cannot ask for a
    password in the middle of a screen (use an agent, keys or a control master).
    """
    pipe = subprocess.PIPE
    try:  # takes milliseconds; in a thread, a cancelled call would leave a process behind that nobody owns
        process = subprocess.Popen(  # noqa: ASYNC220
            argv, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SiteUnreachable(f"`{shlex.join(argv)}` cannot be started: {reason}") from error
    return CommandChannel(argv, process, end_s)
