import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.query import RunQuery, RunsQuery, TraceQuery
from ptb_tui.site import serve, wire
from ptb_tui.site.transport import Descriptors
from ptb_tui.site.wire import Reply, Request
from tests.polling import until
from tests.site.far_end import REPO, FolderSite, argv, ready

TOKEN = "0123456789abcdef"
DEADLINE = 20.0


class Client:
    """The near end by hand, over blocking pipes of a real process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin and process.stdout
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout
        self.lines = wire.Lines()

    def send(self, key: int, op: Any, **body: Any) -> None:
        self.stdin.write(wire.encode(Request(id=key, op=op, body=body)))
        self.stdin.flush()

    def pinged_to_its_end(self) -> bool:
        self.send(9, "ping")
        return self.process.poll() is not None

    def reply(self) -> Reply:
        return wire.decode(Reply, self.stdout.readline())

    def ask(self, key: int, run: str) -> Reply:
        self.send(key, "ask", query=wire.plain(RunQuery(run=run)))
        return self.reply()


@contextlib.contextmanager
def far_end(folder: Path, *options: str, greet: bool = True) -> Iterator[Client]:
    process = subprocess.Popen(
        argv(folder, *options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        client = Client(process)
        if greet:
            client.stdin.write(b"noise from a shell\n" + wire.hello(TOKEN))
            client.stdin.flush()
            assert wire.AwaitReady(TOKEN).feed(client.stdout.readline()) is not None
        yield client
    finally:
        process.kill()
        process.wait(DEADLINE)
        for file in (process.stdin, process.stdout, process.stderr):
            if file:
                with contextlib.suppress(BrokenPipeError):
                    file.close()


def test_ping_and_ask(tmp_path: Path) -> None:
    with far_end(tmp_path) as client:
        client.send(5, "ping")
        assert client.reply() == Reply(id=5, kind="pong")
        assert client.ask(6, "1").body["row"]["id"] == 1


def test_it_ends_with_its_stdin(tmp_path: Path) -> None:
    with far_end(tmp_path) as client:
        client.ask(1, "1")
        client.send(2, "ask", query=wire.plain(RunQuery(run="slow")))
        client.send(3, "watch", query=wire.plain(RunsQuery()), interval=3600)
        client.stdin.close()
        assert client.process.wait(DEADLINE) == 0
        assert client.process.stderr is not None
        assert b"the near end is gone" in client.process.stderr.read()
    assert (tmp_path / "closed").exists()


def test_it_ends_with_its_stdin_before_any_greeting(tmp_path: Path) -> None:
    with far_end(tmp_path, greet=False) as client:
        client.stdin.close()
        assert client.process.wait(DEADLINE) == 0


def test_it_ends_when_nobody_reads_or_pings(tmp_path: Path) -> None:
    with far_end(tmp_path, "--ping", "0.3") as client:
        assert client.process.wait(DEADLINE) == 0
        assert client.process.stderr is not None
        assert b"not heard for 0.3 s" in client.process.stderr.read()


def test_it_ends_when_a_reader_is_stuck(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * (1 << 20))
    with far_end(tmp_path, "--ping", "0.5") as client:
        for key in range(1, 4):
            client.send(key, "fetch", run="1", name="f", length=1 << 20)
        with contextlib.suppress(BrokenPipeError):
            until(client.pinged_to_its_end)
        assert client.process.wait(DEADLINE) == 0


def test_it_ends_after_idle_time_although_it_is_pinged(tmp_path: Path) -> None:
    with far_end(tmp_path, "--idle", "0.3") as client:
        with contextlib.suppress(BrokenPipeError):
            until(client.pinged_to_its_end)
        assert client.process.wait(DEADLINE) == 0


def test_an_open_watch_is_not_idle(tmp_path: Path) -> None:
    with far_end(tmp_path, "--idle", "1") as client:
        client.send(1, "watch", query=wire.plain(RunsQuery()), interval=0.05)
        assert client.reply().kind == "item"
        for number in range(3, 5):
            with pytest.raises(subprocess.TimeoutExpired):
                client.process.wait(1.2)
            (tmp_path / "runs.json.new").write_text(f'[[{number}, "RUNNING"]]')
            (tmp_path / "runs.json.new").replace(tmp_path / "runs.json")
            assert client.reply().body["runs"][0]["id"] == number


def test_stray_output_does_not_reach_the_link(tmp_path: Path) -> None:
    with far_end(tmp_path) as client:
        for key in range(1, 4):
            reply = client.ask(key, "noisy")
            assert (reply.id, reply.kind, reply.body["row"]["id"]) == (key, "answer", 1)
        client.stdin.close()
        assert client.process.stderr is not None
        said = client.process.stderr.read()
        assert said.count(b"a stray print") == said.count(b"from a child") == 3


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        ("missing", "NotFound", "no run"),
        ("step", "StepError", "out of disk"),
        ("broken", "PtbError", "KeyError"),
        ("huge", "PtbError", "at most 4 MiB"),
        ("surrogate", "WireError", "cannot be sent"),
        ("deep", "WireError", "recursion"),
    ],
)
def test_what_goes_wrong_with_one_request_ends_no_other(tmp_path: Path, run: str, kind: str, words: str) -> None:
    with far_end(tmp_path) as client:
        reply = client.ask(1, run)
        assert (reply.id, reply.kind, reply.body["type"]) == (1, "error", kind)
        assert words in reply.body["message"]
        assert client.ask(2, "1").kind == "answer"


def test_unknown_things_are_refused_one_by_one(tmp_path: Path) -> None:
    with far_end(tmp_path) as client:
        client.send(1, "ask", query={"kind": "moon"})
        assert client.reply().body["type"] == "WireError"
        client.send(2, "watch", query=wire.plain(RunsQuery()), interval=-1)
        assert client.reply().body["type"] == "WireError"
        client.send(3, "more", items=5)  # of nothing
        client.send(4, "cancel")
        assert client.ask(5, "1").kind == "answer"


@pytest.mark.parametrize("line", [b"garbage\n", b"{}\n", b'{"id": 1, "op": "moon"}\n', b"x" * (5 << 20)])
def test_garbage_from_the_near_end_ends_it(tmp_path: Path, line: bytes) -> None:
    with far_end(tmp_path) as client:
        with contextlib.suppress(BrokenPipeError):
            client.stdin.write(line)
            client.stdin.flush()
        assert client.process.wait(DEADLINE) == 0


def test_requests_run_side_by_side_and_are_cancelled(tmp_path: Path) -> None:
    with far_end(tmp_path) as client:
        for key in range(1, 16):
            client.send(key, "ask", query=wire.plain(RunQuery(run="slow")))
        assert client.ask(50, "1").id == 50  # the sixteenth
        client.send(60, "ask", query=wire.plain(RunQuery(run="slow")))
        client.send(61, "ask", query=wire.plain(RunQuery(run="1")))  # waits for a turn
        client.send(62, "ping")
        assert client.reply().id == 62
        for key in range(1, 16):
            client.send(key, "cancel")
        assert client.reply().id == 61
        assert client.ask(63, "1").body["facts"]["cancelled"] == 15


def test_too_many_requests_are_refused(tmp_path: Path) -> None:
    with far_end(tmp_path) as client:
        for key in range(serve.OPEN + 1):
            client.send(key + 1, "ask", query=wire.plain(RunQuery(run="slow")))
        reply = client.reply()
        assert (reply.id, reply.kind) == (serve.OPEN + 1, "error")


def test_a_watch_is_paid_for_in_advance(tmp_path: Path) -> None:
    with far_end(tmp_path) as client:
        client.send(1, "watch", query=wire.plain(TraceQuery(run="flood")), window=3)
        assert [client.reply().body["offset"] for _ in range(3)] == [0, 1, 2]
        assert client.ask(2, "1").body["facts"]["produced"] == 3
        client.send(1, "more", items=2)
        assert [client.reply().body["offset"] for _ in range(2)] == [3, 4]
        assert client.ask(3, "1").body["facts"] == {"produced": 5, "cancelled": 0, "closed": 0}
        client.send(1, "cancel")
        assert client.ask(4, "1").body["facts"]["closed"] == 1


def test_an_action_that_has_begun_is_finished(tmp_path: Path) -> None:
    with far_end(tmp_path) as client:
        client.send(1, "do", action={"kind": "cancel", "run": "wait"}, token="t1")
        client.send(1, "cancel")  # an action is not called back
        until((tmp_path / "waiting").exists)
        client.stdin.close()
        assert not (tmp_path / "actions").exists()
        (tmp_path / "go").touch()
        assert client.process.wait(DEADLINE) == 0
    assert (tmp_path / "actions").read_text() == "t1\n"


def test_it_is_nice_and_keeps_its_children_off_the_link(tmp_path: Path) -> None:
    with far_end(tmp_path) as client:
        assert os.getpriority(os.PRIO_PROCESS, client.process.pid) - os.getpriority(os.PRIO_PROCESS, 0) == 5
        assert os.readlink(f"/proc/{client.process.pid}/fd/0") == "/dev/null"
        assert os.readlink(f"/proc/{client.process.pid}/fd/1") == os.readlink(f"/proc/{client.process.pid}/fd/2")


def test_the_verb_says_what_is_wrong_with_the_configuration() -> None:
    call = "import sys; from ptb_tui.site.serve import main; sys.exit(main([]))"
    ended = subprocess.run(
        [sys.executable, "-c", call], cwd="/", env={"PYTHONPATH": str(REPO), "HOME": "/nonexistent"},
        capture_output=True, timeout=DEADLINE,
    )  # fmt: skip
    assert ended.returncode == 2
    assert b"POST_TRAIN_BENCH_RESULTS_DIR is not set" in ended.stderr
    assert ended.stdout == b""


async def test_one_socket_for_both_directions(tmp_path: Path) -> None:
    """What sshd may give a command: stdin and stdout are one socket."""
    near, far = socket.socketpair()
    channel, other = (Descriptors(end.fileno(), os.dup(end.detach())) for end in (near, far))
    serving = asyncio.create_task(serve.serve(lambda: FolderSite(tmp_path), other, ready()))
    await channel.write(wire.hello(TOKEN))
    assert wire.AwaitReady(TOKEN).feed(await channel.read())
    for key in range(1, 50):
        await channel.write(wire.encode(Request(id=key, op="ask", body={"query": wire.plain(RunQuery(run="1"))})))
    lines, keys = wire.Lines(), list[int]()
    while len(keys) < 49:
        keys += [wire.decode(Reply, line).id for line in lines.feed(await channel.read())]
    assert sorted(keys) == list(range(1, 50))
    await channel.close()
    assert await asyncio.wait_for(serving, DEADLINE) == "the near end is gone"


async def pair() -> AsyncIterator[tuple[Descriptors, Descriptors]]:
    (a, b), (c, d) = os.pipe(), os.pipe()
    near, far = Descriptors(a, d), Descriptors(c, b)
    yield near, far
    await near.close()
    await far.close()


async def test_a_channel_carries_bytes_and_waits_for_a_slow_reader() -> None:
    async for near, far in pair():
        data = os.urandom(3 << 20)
        writing = asyncio.create_task(near.write(data))
        found = bytearray()
        while len(found) < len(data):
            assert len(found) == 0 or not writing.done() or len(data) - len(found) <= 1 << 20
            found += await far.read()
        await writing
        assert bytes(found) == data


async def test_a_cancelled_write_is_not_torn() -> None:
    async for near, far in pair():
        first, second = b"a" * (1 << 20), b"b" * (1 << 20)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(near.write(first), 0.05)
        writing = asyncio.create_task(near.write(second))
        found = bytearray()
        while len(found) < len(first + second):
            found += await far.read()
        await writing
        assert bytes(found) == first + second


async def test_a_cancelled_read_loses_nothing() -> None:
    async for near, far in pair():
        for number in range(20):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(far.read(), 0.001)
            await near.write(b"%d" % number)
            assert await far.read() == b"%d" % number


async def test_the_last_words_of_who_is_gone_are_read() -> None:
    async for near, far in pair():
        await far.write(b"last words")
        await far.close()
        with pytest.raises(BrokenPipeError):
            await near.write(b"hello")
        assert [await near.read(), await near.read()] == [b"last words", b""]


async def test_a_closed_channel_wakes_who_waits() -> None:
    async for near, far in pair():
        reading = asyncio.create_task(far.read())
        writing = asyncio.create_task(far.write(b"x" * (1 << 20)))
        await asyncio.sleep(0)
        await far.close()
        assert await reading == b""
        with pytest.raises(BrokenPipeError):
            await writing
        assert await near.read() != b""
