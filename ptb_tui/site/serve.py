"""The far end of a link: a site that speaks the wire on stdin and stdout (design §7). Internal verb `serve`.

It ends with its stdin, 45 s after the near end was last heard (it pings every 10 s), and after 10 minutes in which
nothing was asked or watched. Ending cancels questions and watches; an action that has begun is finished first.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ptb_tui import __version__
from ptb_tui.core.errors import PtbError, WireError
from ptb_tui.core.query import Range
from ptb_tui.core.settings import Settings, load
from ptb_tui.site import wire
from ptb_tui.site.api import Site
from ptb_tui.site.transport import Channel, Descriptors
from ptb_tui.site.wire import Reply, Request

IDLE_S = 600.0
PING_S = 45.0
AT_ONCE = 16  # questions, actions and files worked on at once; more wait
OPEN = 256  # requests open, watches included; more are refused
ACTION_S = 30.0  # an action that has begun may take so long after the near end is gone
CLOSE_S = 10.0  # then threads that hang on a dead file system are left behind


class _Over(Exception):
    """The link has ended; the text says why."""


class _Server:
    def __init__(self, make_site: Callable[[], Site], channel: Channel, idle_s: float, ping_s: float) -> None:
        self._make_site, self._channel = make_site, channel
        self._idle_s, self._ping_s = idle_s, ping_s
        self._site: Site | None = None
        self._sending = asyncio.Lock()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._actions: set[int] = set()
        self._credit: dict[int, asyncio.Semaphore] = {}
        self._heard = self._used = asyncio.get_running_loop().time()

    async def run(self, ready: wire.Ready) -> str:
        try:
            await self._listen(ready)
        except _Over as over:
            return str(over)
        except WireError as error:
            return error.message
        finally:
            await self._end()
        return ""

    async def _listen(self, ready: wire.Ready) -> None:
        awaiting, greeting = wire.AwaitHello(), None
        while greeting is None:
            greeting = awaiting.feed(await self._read())
        token, rest = greeting
        with contextlib.suppress(OSError):
            await self._channel.write(wire.ready_line(token, ready))
        lines = wire.Lines()
        while True:
            for line in lines.feed(rest):
                await self._take(wire.decode(Request, line))
            rest = await self._read()

    async def _read(self) -> bytes:
        """The next bytes. Before it gives up it looks once more: a stopped process wakes to a full pipe."""
        loop = asyncio.get_running_loop()
        why = ""
        while True:
            left = self._heard + self._ping_s - loop.time()
            idle = self._ping_s if self._tasks else self._used + self._idle_s - loop.time()
            try:
                async with asyncio.timeout(0 if why else max(0.0, min(left, idle))):
                    data = await self._channel.read()
            except TimeoutError:
                if why:
                    raise _Over(why) from None
                if loop.time() >= self._heard + self._ping_s:
                    why = f"the near end was not heard for {self._ping_s:g} s"
                elif not self._tasks and loop.time() >= self._used + self._idle_s:
                    why = f"nothing was asked for {self._idle_s:g} s"
                continue
            if not data:
                raise _Over("the near end is gone")
            self._heard = loop.time()
            return data

    async def _take(self, request: Request) -> None:
        """Begin a request; never waits for its end."""
        key = request.id
        if request.op == "ping":
            await self._at_once(Reply(id=key, kind="pong"))
        elif request.op == "more":
            items = wire.body_of(wire.MoreBody, request.body).items
            for _ in range(items if key in self._credit else 0):
                self._credit[key].release()
        elif request.op == "cancel":
            if key in self._tasks and key not in self._actions:
                self._tasks[key].cancel()
        elif key in self._tasks:
            raise WireError(f"request {key} came twice")
        elif len(self._tasks) >= OPEN:
            refusal = PtbError(f"{OPEN} requests are open already", hint="close some views")
            await self._at_once(Reply(id=key, kind="error", body=dict(refusal.to_wire())))
        else:
            if request.op == "do":
                self._actions.add(key)
            if request.op == "watch":  # here, since `more` may be the next frame
                self._credit[key] = asyncio.Semaphore(0)
            self._tasks[key] = task = asyncio.create_task(self._answer(request))
            task.add_done_callback(lambda _: self._done(key))

    def _done(self, key: int) -> None:
        self._tasks.pop(key, None)
        self._credit.pop(key, None)
        self._actions.discard(key)
        self._used = asyncio.get_running_loop().time()

    async def _at_once(self, reply: Reply) -> None:
        """Send from the reading task, which must not wait for ever for a near end that does not read."""
        try:
            async with asyncio.timeout(self._ping_s):
                await self._send(reply)
        except TimeoutError:
            raise _Over(f"the near end has read nothing for {self._ping_s:g} s") from None

    async def _send(self, reply: Reply) -> None:
        frame = wire.encode(reply)
        wire.decode(Reply, frame)  # what cannot be read back (depth, huge numbers) would cost the near end its link
        with contextlib.suppress(OSError):  # then reading ends, too
            async with self._sending:
                await self._channel.write(frame)

    async def _answer(self, request: Request) -> None:
        try:
            await self._work(request)
        except PtbError as error:
            problem = error
        except Exception as error:  # edge of a worker: one broken answer must not end the others
            traceback.print_exc(file=sys.stderr)
            problem = PtbError(
                f"{request.op} failed at the site: {type(error).__name__}: {error}", hint="a mistake in ptb-tui"
            )
        else:
            return
        try:
            await self._send(Reply(id=request.id, kind="error", body=dict(problem.to_wire())))
        except PtbError:  # a message that JSON cannot carry
            words = {"type": problem.kind, "message": ascii(problem.message)[:2000]}
            await self._send(Reply(id=request.id, kind="error", body=dict(words)))

    async def _work(self, request: Request) -> None:
        key, body = request.id, request.body
        if self._site is None:
            self._site = self._make_site()
        site = self._site
        if request.op == "watch":
            watch = wire.body_of(wire.WatchBody, body)
            for _ in range(watch.window):
                self._credit[key].release()
            await self._watch(key, site.watch(watch.query, interval=watch.interval))
            return
        async with self._turn:
            if request.op == "ask":
                answer: BaseModel = await site.ask(wire.body_of(wire.AskBody, body).query)
                await self._send(Reply(id=key, kind="answer", body=wire.plain(answer)))
            elif request.op == "do":
                doing = wire.body_of(wire.DoBody, body)
                receipt = await site.do(doing.action, doing.token)
                await self._send(Reply(id=key, kind="answer", body=wire.plain(receipt)))
            else:
                data = await site.fetch(wire.body_of(Range, body))
                for at in range(0, len(data), wire.CHUNK):
                    part = wire.DataBody.of(data[at : at + wire.CHUNK])
                    await self._send(Reply(id=key, kind="item", body=wire.plain(part)))
                await self._send(Reply(id=key, kind="end"))

    async def _watch(self, key: int, answers: AsyncIterator[Any]) -> None:
        try:
            while True:
                await self._credit[key].acquire()  # before looking, so nothing is computed ahead of a slow reader
                try:
                    answer = await anext(answers)
                except StopAsyncIteration:
                    break
                await self._send(Reply(id=key, kind="item", body=wire.plain(answer)))
        finally:
            if close := getattr(answers, "aclose", None):
                await close()
        await self._send(Reply(id=key, kind="end"))

    async def _end(self) -> None:
        tasks = dict(self._tasks)
        actions = [task for key, task in tasks.items() if key in self._actions]
        for task in tasks.values():
            if task not in actions:
                task.cancel()
        if actions:
            await asyncio.wait(actions, timeout=ACTION_S)
        for task in actions:
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        if self._site is not None:
            with contextlib.suppress(TimeoutError, PtbError):
                async with asyncio.timeout(CLOSE_S):
                    await self._site.close()
        await self._channel.close()


async def serve(
    make_site: Callable[[], Site],
    channel: Channel,
    ready: wire.Ready,
    *,
    idle_s: float = IDLE_S,
    ping_s: float = PING_S,
) -> str:
    """Speak the wire on `channel` until the link ends; returns why it ended. The site is made at the first request."""
    return await _Server(make_site, channel, idle_s, ping_s).run(ready)


def take_stdio() -> tuple[int, int]:
    """Descriptors of the real stdin and stdout. From now on a stray `print` goes to stderr, and neither it nor a
    child process can touch the link: 0 is empty, 1 is stderr."""
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without stderr
        os.dup2(null, 1)
        os.dup2(null, 2)
    os.close(null)
    return reading, writing


def run(make_site: Callable[[], Site], ready: wire.Ready, *, idle_s: float = IDLE_S, ping_s: float = PING_S) -> int:
    """Serve on this process's stdin and stdout; returns the exit status. Says on stderr why it ended."""
    reading, writing = take_stdio()
    os.nice(5)
    # asyncio waits for worker threads, which a dead file system may hold for ever
    hanging = threading.Timer(CLOSE_S, os._exit, args=(0,))
    hanging.daemon = True

    async def serving() -> str:
        try:
            return await serve(make_site, Descriptors(reading, writing), ready, idle_s=idle_s, ping_s=ping_s)
        finally:
            hanging.start()

    try:
        print(f"serve: {asyncio.run(serving())}", file=sys.stderr)
    finally:
        hanging.cancel()
    return 0


def greeting(settings: Settings) -> wire.Ready:
    """What this end says about itself. ConfigError when no results root is configured."""
    return wire.Ready(
        wire=wire.VERSION,
        version=__version__,
        pid=os.getpid(),
        host=socket.gethostname(),
        root=str(settings.results),
        content=tuple(str(folder) for folder in settings.content if folder.is_dir()),
    )


def main(argv: Sequence[str]) -> int:
    """`serve [RESULTS] [--idle SECONDS]`: the far end for the console on another machine."""
    parser = argparse.ArgumentParser(prog="ptb-tui serve", description="The far end of a link; started by a console.")
    parser.add_argument("results", nargs="?", type=Path, help="results root; default: as configured here")
    parser.add_argument("--idle", type=float, default=IDLE_S, metavar="SECONDS", help="end after so long unused")
    options = parser.parse_args(argv)
    try:
        settings = load(results=options.results)
        ready = greeting(settings)
    except PtbError as error:
        print(f"{error.title}: {error.message}" + (f" ({error.hint})" if error.hint else ""), file=sys.stderr)
        return error.exit_code

    def make_site() -> Site:
        from ptb_tui.site.local import LocalSite  # heavy: the greeting should not wait for it

        return LocalSite(settings, settings.results)

    return run(make_site, ready, idle_s=options.idle)
