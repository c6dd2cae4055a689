import asyncio
import contextlib
import math
import os
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.action import Cancel
from ptb_tui.core.errors import NotFound, PtbError, SiteUnreachable, StepError, WireError
from ptb_tui.core.query import Range, RunDetail, RunQuery, RunsQuery, TraceQuery
from ptb_tui.site import wire
from ptb_tui.site.api import Site
from ptb_tui.site.remote import RemoteSite
from ptb_tui.site.transport.command import CommandChannel, open_command
from tests.site.far_end import FLOOD, argv

DEADLINE = 30.0


@contextlib.asynccontextmanager
async def remote(
    folder: Path, *options: str, command: tuple[str, ...] = (), end_s: float = 5.0, **knobs: Any
) -> AsyncIterator[RemoteSite]:
    site = RemoteSite("lab", partial(open_command, command or argv(folder, *options), end_s=end_s), **knobs)
    try:
        async with asyncio.timeout(2 * DEADLINE):
            yield site
    finally:
        await site.close()


async def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def rss_kib(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


async def counts(site: RemoteSite) -> dict[str, int]:
    return (await typed(site).ask(RunQuery(run="1"))).facts


def typed(site: Site) -> Site:
    """Checked by mypy: a RemoteSite is a Site, and its answers have the type of the question."""
    return site


def kill(site: RemoteSite) -> None:
    assert site.ready
    os.kill(site.ready.pid, signal.SIGKILL)


async def test_ask_do_fetch(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_text('[[1, "RUNNING"], [2, "DONE"]]')
    data = os.urandom(900_000)
    (tmp_path / "f").write_bytes(data)
    async with remote(tmp_path) as lab:
        site = typed(lab)
        assert [row.state for row in (await site.ask(RunsQuery())).runs] == ["RUNNING", "DONE"]
        assert (await site.do(Cancel(run="1"), "t1")).words == "done"
        assert (await site.do(Cancel(run="1"), "t1")).words == "known"
        assert await site.fetch(Range(run="1", name="f", length=1 << 20)) == data
        assert await site.fetch(Range(run="1", name="f", offset=300_000, length=300_001)) == data[300_000:600_001]
        assert await site.fetch(Range(run="1", name="f", offset=1_000_000)) == b""
        pid = lab.ready.pid if lab.ready else 0
    await until(lambda: not alive(pid))
    with pytest.raises(SiteUnreachable, match="closed"):
        await lab.ask(RunsQuery())


async def test_many_requests_share_a_link(tmp_path: Path) -> None:
    async with remote(tmp_path) as site:
        details = await asyncio.gather(*(site.ask(RunQuery(run="1")) for _ in range(300)))
        assert len(details) == 300 and site.ready
        pid = site.ready.pid
        await site.ask(RunsQuery())
        assert site.ready.pid == pid


async def test_odd_content_arrives_as_it_was(tmp_path: Path) -> None:
    async with remote(tmp_path) as site:
        metrics = (await site.ask(RunQuery(run="odd"))).metrics
        assert math.isnan(metrics["nan"]) and metrics["inf"] == math.inf
        assert metrics["text"] == "\x1b[31m\u2028\x00é"


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        ("missing", NotFound, "no run"),
        ("step", StepError, "out of disk"),
        ("broken", PtbError, "KeyError"),
        ("huge", PtbError, "at most 4 MiB"),
        ("surrogate", WireError, "cannot be sent"),
        ("deep", WireError, "cannot be sent|not JSON"),
    ],
)
async def test_errors_are_typed_and_end_only_their_request(
    tmp_path: Path, run: str, kind: type[PtbError], words: str
) -> None:
    async with remote(tmp_path) as site:
        await site.ask(RunQuery(run="1"))
        assert site.ready
        pid = site.ready.pid
        with pytest.raises(kind, match=words) as caught:
            await site.ask(RunQuery(run=run))
        assert type(caught.value) is kind
        await site.ask(RunQuery(run="1"))
        assert site.ready.pid == pid


async def test_a_noisy_shell_before_the_greeting(tmp_path: Path) -> None:
    banner = b"Welcome\r\n\x1b[2J" + bytes(range(256)) * 40 + b"\nPTB-READY \nPTB-HELLO 0123456789abcdef 1\n$ "
    (tmp_path / "banner").write_bytes(banner)
    shell = f"cat {shlex.quote(str(tmp_path))}/banner; echo complaint >&2; exec {shlex.join(argv(tmp_path))}"
    async with remote(tmp_path, command=("sh", "-c", shell)) as site:
        assert isinstance(await site.ask(RunQuery(run="noisy")), RunDetail)
        assert site.noise == banner
        assert isinstance(await site.ask(RunQuery(run="noisy")), RunDetail)


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("echo no such account >&2; exit 7", SiteUnreachable, "ended with status 7; it said: no such account"),
        ("echo maintenance today; exit 0", SiteUnreachable, "before that it printed: maintenance today"),
        ("cat /dev/zero", WireError, "64 KiB before the greeting"),
        ("read a t v; echo PTB-READY $t '{}'; cat", WireError, "a frame is not understood"),
        ("exec >&-; exec sleep 60", SiteUnreachable, "gives no answer"),
        ("kill -9 $$", SiteUnreachable, "killed by signal 9"),
    ],
)
async def test_no_greeting(tmp_path: Path, script: str, kind: type[PtbError], words: str) -> None:
    lives = "cat" in script or "sleep" in script
    async with remote(tmp_path, command=("sh", "-c", script), end_s=0.2 if lives else 5.0) as site:
        with pytest.raises(SiteUnreachable) as caught:
            await site.ask(RunsQuery())
        assert type(caught.value) is kind
        assert caught.value.message.startswith("lab: ")
        assert words in caught.value.message and "`sh -c " in caught.value.message


async def test_a_silent_far_end_is_given_up(tmp_path: Path) -> None:
    pids: list[int] = []

    async def connect() -> CommandChannel:
        channel = await open_command(
            ("sh", "-c", "trap '' TERM; echo thinking; while :; do sleep 0.1; done"), end_s=0.2
        )
        pids.append(channel.pid)
        return channel

    site = RemoteSite("lab", connect, handshake_s=1.0)
    with pytest.raises(SiteUnreachable, match=r"no greeting within 1 s.*thinking"):
        await site.ask(RunsQuery())
    assert len(pids) == 1 and not alive(pids[0])  # TERM was not enough
    await site.close()


async def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    async with remote(tmp_path, command=("/nonexistent/ssh", "host")) as site:
        with pytest.raises(SiteUnreachable, match=r"lab: `/nonexistent/ssh host` cannot be started: No such file"):
            await site.ask(RunsQuery())


GARBAGE = """
import sys
token = sys.stdin.readline().split()[1]
print("PTB-READY", token, '{"wire": 1, "version": "0", "pid": 1, "host": "h"}', flush=True)
sys.stdin.readline()
sys.stdout.write(%s)
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("'garbage\\n'", "not JSON.*garbage"),
        ("'{}\\n'", "not understood"),
        ("'x' * (5 << 20)", "longer than"),
        ("'[' * 100000 + '\\n'", "not JSON"),
        ('\'{"id": 1, "kind": "item", "body": {}}\\n\' * 100', "more than was asked for|too many replies"),
        ('\'{"id": 1, "kind": "answer", "body": {"kind": "moon"}}\\n\'', "answer is not understood"),
        ('\'{"id": 1, "kind": "answer", "body": {"kind": "doctor"}}\\n\'', "doctor was answered"),
        ('\'{"id": 1, "kind": "error", "body": {"type": []}}\\n\'', "not understood"),
    ],
)
async def test_garbage_from_the_far_end(tmp_path: Path, words: str, match: str) -> None:
    async with remote(tmp_path, command=(sys.executable, "-c", GARBAGE % words)) as site:
        with pytest.raises(WireError, match=match) as caught:
            await site.ask(RunsQuery())
        assert caught.value.message.isprintable()


async def test_replies_to_nobody_are_harmless(tmp_path: Path) -> None:
    words = '\'{"id": 99, "kind": "item"}\\n{"id": 1, "kind": "answer", "body": {"kind": "runs"}}\\n\''
    async with remote(tmp_path, command=(sys.executable, "-c", GARBAGE % words)) as site:
        assert (await site.ask(RunsQuery())).runs == ()


async def test_a_slow_reader_delays_nobody_and_fills_no_memory(tmp_path: Path) -> None:
    async with remote(tmp_path) as site:
        flood = site.watch(TraceQuery(run="flood"))
        first = await anext(flood)
        assert first.offset == 0
        for _ in range(20):  # the link is free although nobody reads the flood
            assert (await counts(site))["produced"] <= wire.WINDOW + 1
        assert site.ready
        pid, before, at = site.ready.pid, 0, 0
        async for chunk in flood:
            at += 1
            assert chunk.offset == at
            if at % 1000 == 500:
                assert (await counts(site))["produced"] <= at + wire.WINDOW + 2
                before = before or rss_kib(pid)
                assert rss_kib(pid) - before < 16 << 10
        assert at == FLOOD and chunk.ended
        assert (await counts(site))["closed"] == 1


async def test_cancelling_a_question(tmp_path: Path) -> None:
    async with remote(tmp_path) as site:
        await site.ask(RunQuery(run="1"))
        asking = [asyncio.create_task(site.ask(RunQuery(run="slow"))) for _ in range(40)]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(site.ask(RunQuery(run="1")), 0.3)  # all turns are taken
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        assert all(task.cancelled() for task in asking)
        await asyncio.gather(*(site.ask(RunQuery(run="1")) for _ in range(40)))
        assert 0 < (await counts(site))["cancelled"] <= 16


async def test_leaving_a_watch_ends_it_at_the_far_end(tmp_path: Path) -> None:
    async with remote(tmp_path) as site:
        for number in range(1, 4):
            async with contextlib.aclosing(site.watch(RunsQuery(), interval=60)) as lists:
                assert (await anext(lists)).runs == ()
            deadline = time.monotonic() + DEADLINE
            while (await counts(site))["closed"] != number:
                assert time.monotonic() < deadline

        async def watching() -> None:
            async for _ in site.watch(RunsQuery(), interval=60):
                seen.set()

        seen = asyncio.Event()
        task = asyncio.create_task(watching())
        await seen.wait()
        task.cancel()
        await asyncio.wait([task])
        while (await counts(site))["closed"] != 4:
            assert time.monotonic() < deadline


async def test_a_trace_is_resumed_after_kill_9(tmp_path: Path) -> None:
    text = "".join(f"{number} tokens\n" for number in range(6000)).encode()
    (tmp_path / "trace").touch()

    async def write() -> None:
        with open(tmp_path / "trace", "ab", buffering=0) as file:
            for at in range(0, len(text), 1 << 12):
                file.write(text[at : at + (1 << 12)])
                await asyncio.sleep(0)
        (tmp_path / "ended").touch()

    async with remote(tmp_path) as site:
        writing = asyncio.create_task(write())
        found, pids, chunks = bytearray(), set[int](), 0
        async for chunk in site.watch(TraceQuery(run="1"), interval=0.001):
            assert chunk.offset == len(found)
            found += chunk.text.encode()
            chunks += 1
            assert site.ready
            pids.add(site.ready.pid)
            if chunks in (3, 20, 40):
                kill(site)
        await writing
        assert chunk.ended and bytes(found) == text
        assert len(pids) == 4


async def test_the_end_of_a_trace_counts_from_its_first_chunk(tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(b"x" * 5000 + b"y" * 1500)
    async with remote(tmp_path) as site:
        trace = site.watch(TraceQuery(run="1", offset=-1500), interval=0.001)
        assert [(await anext(trace)).offset for _ in range(2)] == [5000, 6000]
        kill(site)
        with open(tmp_path / "trace", "ab") as file:
            file.write(b"z" * 10)
        (tmp_path / "ended").touch()
        rest = [chunk async for chunk in trace]
        assert [(chunk.offset, chunk.text, chunk.ended) for chunk in rest] == [(6500, "z" * 10, True)]


async def test_a_list_is_resumed_with_what_happened_meanwhile(tmp_path: Path) -> None:
    def runs(text: str) -> None:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(tmp_path / "runs.json")

    async with remote(tmp_path) as site:
        runs('[[1, "RUNNING"], [2, "RUNNING"]]')
        lists = site.watch(RunsQuery(match="RUNNING"), interval=0.005)
        assert [row.id for row in (await anext(lists)).runs] == [1, 2]
        runs('[[1, "RUNNING"], [2, "RUNNING"], [3, "RUNNING"]]')
        assert [row.id for row in (await anext(lists)).runs] == [3]
        kill(site)
        runs('[[1, "DONE"], [2, "RUNNING"], [3, "RUNNING"]]')
        again = {row.id: row.state for row in (await anext(lists)).runs}
        assert again == {1: "DONE", 2: "RUNNING", 3: "RUNNING"}


async def test_an_action_is_repeated_once_with_its_token(tmp_path: Path) -> None:
    async with remote(tmp_path) as site:
        receipt = await site.do(Cancel(run="die"), "t1")  # the far end dies after it was done, before it answers
        assert (receipt.words, receipt.token) == ("known", "t1")
        assert (tmp_path / "actions").read_text() == "t1\n"


async def test_the_next_call_makes_a_new_link(tmp_path: Path) -> None:
    async with remote(tmp_path, "--idle", "1", ping_s=0.1) as site:
        await site.ask(RunsQuery())
        assert site.ready
        first = site.ready.pid
        await until(lambda: not alive(first))
        await site.ask(RunsQuery())
        assert site.ready.pid != first


async def test_a_far_end_that_is_gone_for_good(tmp_path: Path) -> None:
    script = f"test -e {shlex.quote(str(tmp_path))}/gone && {{ echo disk on fire >&2; exit 3; }}; "
    command = ("sh", "-c", script + f"exec {shlex.join(argv(tmp_path))}")
    async with remote(tmp_path, command=command, patience_s=0.3) as site:
        lists = site.watch(RunsQuery(), interval=60)
        await anext(lists)
        (tmp_path / "gone").touch()
        kill(site)
        with pytest.raises(SiteUnreachable, match=r"lab: .*status 3; it said: disk on fire"):
            await anext(lists)
        with pytest.raises(SiteUnreachable, match="disk on fire") as caught:
            await site.do(Cancel(run="1"), "t")
        assert "at most once" in caught.value.hint
        (tmp_path / "gone").unlink()
        assert (await site.do(Cancel(run="1"), "t")).words == "done"


async def test_a_stopped_far_end_is_noticed(tmp_path: Path) -> None:
    async with remote(tmp_path, ping_s=0.3, end_s=0.2) as site:
        await site.ask(RunsQuery())
        assert site.ready
        first = site.ready.pid
        os.kill(first, signal.SIGSTOP)
        await site.ask(RunsQuery())  # over a new link
        assert site.ready.pid != first
        await until(lambda: not alive(first))


async def test_the_site_is_let_go_of_while_it_is_used(tmp_path: Path) -> None:
    async with remote(tmp_path) as site:
        await site.ask(RunsQuery())
        asking = asyncio.create_task(site.ask(RunQuery(run="slow")))
        lists = site.watch(RunsQuery(), interval=60)
        await anext(lists)
        await site.close()
        await site.close()
        with pytest.raises(SiteUnreachable, match="closed"):
            await asking
        with pytest.raises(SiteUnreachable, match="closed"):
            await anext(lists)


async def test_closing_does_not_wait_for_a_greeting(tmp_path: Path) -> None:
    async with remote(tmp_path, command=("sh", "-c", "exec cat >&2"), end_s=0.2) as site:
        asking = [asyncio.create_task(site.ask(RunsQuery())) for _ in range(3)]
        await asyncio.wait(asking, timeout=0.1)
        await site.close()
        for task in asking:
            with pytest.raises(SiteUnreachable, match="closed"):
                await task


async def test_only_the_last_words_are_kept(tmp_path: Path) -> None:
    shell = "yes complaint | head -c 3000000 >&2; printf '\\033[31mlast word' >&2; exit 1"
    async with remote(tmp_path, command=("sh", "-c", shell)) as site:
        with pytest.raises(SiteUnreachable, match=r"last word$") as caught:
            await site.ask(RunsQuery())
        assert len(caught.value.message) < 3000 and "\x1b" not in caught.value.message
