"""A site at the far end of a link: the same calls as a local one (design §2.4, §7)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any

from ptb_tui.core.action import Action, Receipt
from ptb_tui.core.errors import SiteUnreachable, WireError
from ptb_tui.core.query import Query, Range, RunList, RunsQuery, TraceChunk, TraceQuery
from ptb_tui.core.text import sanitize
from ptb_tui.site import wire
from ptb_tui.site.transport import Channel, Connect
from ptb_tui.site.wire import Reply, Request

HANDSHAKE_S = 30.0
PING_S = 10.0
UNANSWERED = 4  # pings without an answer, then the link is taken for dead
PATIENCE_S = 60.0  # so long a watch tries to go on by itself
STEADY_S = 10.0  # a link that lived so long was a good one
_BACKOFF_S = (0.0, 0.2, 1.0, 2.0, 5.0)


class _Lost(Exception):
    """The link is gone; `error` is what to tell. Told apart from the same error raised at the far end."""

    def __init__(self, error: SiteUnreachable) -> None:
        super().__init__(error.message)
        self.error = error


class _Link:
    """One living link: sends requests, hands each reply to the one who waits for it."""

    def __init__(self, name: str, channel: Channel, ping_s: float) -> None:
        self._name, self._channel, self._ping_s = name, channel, ping_s
        self._waiting: dict[int, asyncio.Queue[Reply | _Lost]] = {}
        self._ids = itertools.count(1)
        self._sending = asyncio.Lock()
        self._turn = asyncio.Semaphore(16)
        self._unanswered = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost: _Lost | None = None

    def start(self, rest: bytes) -> None:
        self._spawn(self._read(rest))
        self._spawn(self._ping())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, rest: bytes) -> None:
        lines = wire.Lines()
        try:
            while True:
                for line in lines.feed(rest):
                    self._hand(wire.decode(Reply, line))
                rest = await self._channel.read()
                self._unanswered = 0
                if not rest:
                    break
        except WireError as error:
            self._fail(WireError(f"{self._name}: {error.message}", hint=error.hint))
            return
        self._fail(SiteUnreachable(f"{self._name}: {await self._channel.epitaph() or 'the link has ended'}"))

    def _hand(self, reply: Reply) -> None:
        queue = self._waiting.get(reply.id)
        if queue is None:  # a pong, or what was cancelled
            return
        if queue.qsize() > wire.WINDOW:
            raise WireError(f"more than was asked for came for request {reply.id}")
        queue.put_nowait(reply)

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(self._ping_s)
            # counted, not timed: after a suspended laptop wakes, the far end still gets its chance to answer
            if self._unanswered >= UNANSWERED:
                self._fail(SiteUnreachable(f"{self._name}: no answer to {UNANSWERED} pings"))
                return
            self._unanswered += 1
            with contextlib.suppress(TimeoutError, _Lost):
                async with asyncio.timeout(self._ping_s):
                    await self._send(Request(id=0, op="ping"))

    def _fail(self, error: SiteUnreachable) -> None:
        if self.lost is None:
            self.lost = _Lost(error)
            for queue in self._waiting.values():
                queue.put_nowait(self.lost)
            self._spawn(self._channel.close())

    async def _send(self, request: Request) -> None:
        frame = wire.encode(request)
        async with self._sending:
            if self.lost is not None:
                raise self.lost
            try:
                await self._channel.write(frame)
            except OSError:  # reading ends, too, and knows more
                return

    @contextlib.asynccontextmanager
    async def request(self, op: Any, body: dict[str, Any]) -> AsyncIterator[_Open]:
        """Send a request; within the context its replies can be read. Leaving before their end cancels it."""
        key = next(self._ids)
        queue: asyncio.Queue[Reply | _Lost] = asyncio.Queue()
        self._waiting[key] = queue
        opened = _Open(self, key, queue)
        try:
            await self._send(Request(id=key, op=op, body=body))
            yield opened
        finally:
            del self._waiting[key]
            if not opened.ended and self.lost is None:
                self._spawn(self._cancel(key))

    async def _cancel(self, key: int) -> None:
        with contextlib.suppress(_Lost):
            await self._send(Request(id=key, op="cancel"))

    async def more(self, key: int, items: int) -> None:
        await self._send(Request(id=key, op="more", body={"items": items}))

    async def call(self, op: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Bodies of all replies to a request, the last one included."""
        found: list[dict[str, Any]] = []
        async with self._turn, self.request(op, body) as replies:
            while not replies.ended:
                found.append((await replies.next()).body)
                if len(found) > wire.WINDOW:
                    raise WireError(f"{self._name}: too many replies to one request")
        return found

    @property
    def ended(self) -> bool:
        """Whether it was lost and nothing of it is left."""
        return self.lost is not None and not self._tasks

    async def close(self) -> None:
        self._fail(SiteUnreachable(f"{self._name}: closed"))
        await self._channel.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Open:
    """A request under way."""

    def __init__(self, link: _Link, key: int, queue: asyncio.Queue[Reply | _Lost]) -> None:
        self._link, self.key, self._queue = link, key, queue
        self.ended = False

    async def next(self) -> Reply:
        """The next reply; raises the far end's error, or `_Lost`."""
        reply = await self._queue.get()
        if isinstance(reply, _Lost):
            self.ended = True
            raise reply
        self.ended = reply.kind != "item"
        if reply.kind == "error":
            raise wire.body_of(wire.ErrorBody, reply.body).error()
        return reply


class _Progress:
    """Where a watch is, so that it goes on over another link without losing or repeating anything."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.started = self.resumed = False
        self._known: set[int] = set()
        self._last: Any = None

    def take(self, answer: Any) -> Any:
        """What of this answer is news; None for nothing. WireError when the far end left something out."""
        again, self.resumed = self.resumed, False
        if isinstance(answer, TraceChunk) and isinstance(self.query, TraceQuery):
            if self.started and answer.offset != self.query.offset:
                raise WireError(f"the trace of run {self.query.run} went on at byte {answer.offset}, "
                                f"not at {self.query.offset}")  # fmt: skip
            self.query = self.query.model_copy(update={"offset": answer.next})
            news = not again or answer.next > answer.offset or answer.ended
        else:
            news = not again or isinstance(answer, RunList) or answer != self._last
            self._last = None if isinstance(answer, RunList) else answer
        if isinstance(answer, RunList):
            self._known.update(row.id for row in answer.runs)
        self.started = True
        return answer if news else None

    def unmatched(self, answer: Any) -> tuple[int, ...]:
        """Runs that stopped matching while there was no link; their rows are still owed."""
        if not self.resumed or not isinstance(answer, RunList):
            return ()
        return tuple(sorted(self._known - {row.id for row in answer.runs}))


def _joined(first: Any, second: Any) -> RunList:
    """Two lists as one; the rows of the second come last."""
    return RunList(runs=(*first.runs, *second.runs), problems=first.problems)


class _Patience:
    """How long, and how often, a watch tries to go on after its link was lost."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._tries = 0
        self._lost_at: float | None = None
        self._linked_at: float | None = None

    def linked(self) -> None:
        self._linked_at = asyncio.get_running_loop().time()

    async def wait(self, error: SiteUnreachable, *, once: bool = False) -> None:
        """Wait before the next try; raises `error` when there have been enough. A steady link renews the patience."""
        now = asyncio.get_running_loop().time()
        if self._linked_at is not None and now - self._linked_at > STEADY_S:
            self._lost_at, self._tries = None, 0
        self._linked_at = None
        self._lost_at = now if self._lost_at is None else self._lost_at
        if now - self._lost_at >= self._seconds or (once and self._tries):
            raise error
        await asyncio.sleep(_BACKOFF_S[min(self._tries, len(_BACKOFF_S) - 1)])
        self._tries += 1


class RemoteSite:
    """A `Site` over a channel. The link is made at the first call, and again at the next one after it was lost.

    `ready` and `noise` tell about the newest link: what the far end is, and what it said before the greeting.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        *,
        handshake_s: float = HANDSHAKE_S,
        ping_s: float = PING_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.name = name
        self.ready: wire.Ready | None = None
        self.noise = b""
        self._connect, self._handshake_s, self._ping_s, self._patience_s = connect, handshake_s, ping_s, patience_s
        self._connecting = asyncio.Lock()
        self._greeting: asyncio.Task[_Link] | None = None
        self._links: list[_Link] = []  # the newest is the last; older ones are ending
        self._closed = False

    async def ask(self, query: Query) -> Any:
        """See `Site`."""
        answer = wire.answer_of(await self._call("ask", {"query": wire.plain(query)}))
        if answer.kind != query.kind:
            raise WireError(f"{self.name}: {query.kind} was asked, {answer.kind} was answered")
        return answer

    async def watch(self, query: Query, *, interval: float = 1.0) -> AsyncGenerator[Any, None]:
        """See `Site`. After a lost link it tries for a minute to go on where it was."""
        progress, patience = _Progress(query), _Patience(self._patience_s)
        while True:
            try:
                link = await self._linked()
            except SiteUnreachable as error:
                if not progress.started or self._closed:
                    raise
                await patience.wait(error)
                continue
            patience.linked()
            body = {"query": wire.plain(progress.query), "interval": interval, "window": wire.WINDOW}
            try:
                async with link.request("watch", body) as replies:
                    used = 0
                    while (reply := await replies.next()).kind == "item":
                        answer = wire.answer_of(reply.body)
                        if owed := progress.unmatched(answer):
                            more = await link.call("ask", {"query": wire.plain(RunsQuery(ids=owed))})
                            answer = _joined(answer, wire.answer_of(more[-1]))
                        if (news := progress.take(answer)) is not None:
                            yield news
                        used += 1
                        if used == wire.WINDOW // 2:
                            used = 0
                            await link.more(replies.key, wire.WINDOW // 2)
                return
            except _Lost as lost:
                await patience.wait(lost.error, once=not progress.started)
                progress.resumed = progress.started

    async def do(self, action: Action, token: str) -> Receipt:
        """See `Site`. After a lost link it is asked once more with the same token."""
        try:
            return wire.body_of(Receipt, await self._call("do", {"action": wire.plain(action), "token": token}))
        except SiteUnreachable as error:
            error.hint = error.hint or "it may have been done; the same request again does it at most once"
            raise

    async def fetch(self, range: Range) -> bytes:  # noqa: A002 - the word of the contract
        """See `Site`."""
        *parts, _ = await self._calls("fetch", wire.plain(range))
        data = b"".join(wire.body_of(wire.DataBody, part).content() for part in parts)
        if len(data) > range.length:
            raise WireError(f"{self.name}: {len(data)} bytes came where {range.length} were asked for")
        return data

    async def close(self) -> None:
        """See `Site`."""
        self._closed = True
        if self._greeting is not None:
            self._greeting.cancel()
        async with self._connecting:
            await asyncio.gather(*(link.close() for link in self._links))

    async def _call(self, op: str, body: dict[str, Any]) -> dict[str, Any]:
        return (await self._calls(op, body))[-1]

    async def _calls(self, op: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Replies to a request; once more over a new link when the link was lost under it."""
        try:
            return await (await self._linked()).call(op, body)
        except _Lost:
            pass
        try:
            return await (await self._linked()).call(op, body)
        except _Lost as lost:
            raise lost.error from None

    async def _linked(self) -> _Link:
        async with self._connecting:
            if not self._closed and self._links and self._links[-1].lost is None:
                return self._links[-1]
            self._links = [link for link in self._links if not link.ended]
            if not self._closed:
                self._greeting = asyncio.create_task(self._greet())
                try:
                    self._links.append(await self._greeting)
                    return self._links[-1]
                except asyncio.CancelledError:  # of the caller, or of the greeting by `close`
                    task = asyncio.current_task()
                    if not self._closed or (task is not None and task.cancelling()):
                        raise
            raise SiteUnreachable(f"{self.name}: this connection was closed")

    async def _greet(self) -> _Link:
        try:
            channel = await self._connect()
        except SiteUnreachable as error:
            raise SiteUnreachable(f"{self.name}: {error.message}", hint=error.hint) from error
        link: _Link | None = None
        try:
            link = await self._greeted(channel)
        finally:
            if link is None:
                await channel.close()
        return link

    async def _greeted(self, channel: Channel) -> _Link:
        token = wire.new_token()
        awaiting = wire.AwaitReady(token)
        problem = SiteUnreachable("it ended before the greeting")
        try:
            async with asyncio.timeout(self._handshake_s):
                greeting = await self._handshake(channel, token, awaiting)
        except TimeoutError:
            problem = SiteUnreachable(f"no greeting within {self._handshake_s:g} s")
        except WireError as error:
            problem = error
        else:
            if greeting is not None:
                self.noise = awaiting.noise
                self.ready, rest = greeting
                link = _Link(self.name, channel, self._ping_s)
                link.start(rest)
                return link
        said = sanitize(awaiting.noise[-2048:]).strip()
        parts = (problem.message, await channel.epitaph(), said and f"before that it printed: {said}")
        raise type(problem)(f"{self.name}: {'; '.join(part for part in parts if part)}", hint=problem.hint)

    @staticmethod
    async def _handshake(channel: Channel, token: str, awaiting: wire.AwaitReady) -> tuple[wire.Ready, bytes] | None:
        with contextlib.suppress(OSError):  # reading tells the rest
            await channel.write(wire.hello(token))
        while data := await channel.read():
            if greeting := awaiting.feed(data):
                return greeting
        return None
