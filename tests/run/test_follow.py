from __future__ import annotations

import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.core import files
from ptb_tui.run import follow
from ptb_tui.traces import index, parser_for
from ptb_tui.traces.marks import MarkWriter
from ptb_tui.traces.outputs import Outputs
from ptb_tui.traces.render import render
from tests.polling import until

REPO = Path(__file__).parents[2]
SAMPLES = REPO / "tests" / "data" / "traces"
SECRET = "s3cret-Value-For-The-Trace-0123456789"
VERB = "import sys; from ptb_tui.run.follow import main; sys.exit(main(sys.argv[1:]))"
STAMPED = re.compile(rb"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\] ")


class Place:
    """A scratch and a run directory."""

    def __init__(self, folder: Path) -> None:
        self.scratch, self.run = folder / "scratch", folder / "results" / "run"
        self.ptb = self.run / ".ptb"
        self.scratch.mkdir()
        self.ptb.mkdir(parents=True)
        self.raw = self.scratch / "raw"
        self.env_file = folder / "env"
        self.env_file.write_text(f"A_API_KEY={SECRET}\n")

    def start(self, family: str = "plain") -> subprocess.Popen[bytes]:
        env = {**os.environ, "PTB_ENV_FILE": str(self.env_file), "PYTHONPATH": str(REPO)}
        argv = [sys.executable, "-c", VERB, str(self.scratch), str(self.ptb), family]
        return subprocess.Popen(argv, env=env, cwd="/")

    def end(self) -> None:
        size = self.raw.stat().st_size if self.raw.exists() else 0
        files.replace(self.scratch / "raw.end", json.dumps({"size": size}))

    def text(self, name: str = "solve_out.txt") -> bytes:
        return (self.run / name).read_bytes()

    def unstamped(self) -> bytes:
        lines = self.text().split(b"\n")
        assert all(STAMPED.match(line) for line in lines if line)
        return b"\n".join(line[23:] for line in lines)

    def done(self) -> dict[str, Any]:
        done = files.read_object(self.scratch / "follow.done")
        assert done is not None
        return done

    def check(self, family: str) -> None:
        """The three outputs agree with each other, and `follow.done` with all."""
        out, raw, done = self.text(), self.raw.read_bytes(), self.done()
        parser = parser_for(family)
        events = parser.feed(out) + parser.close()
        assert self.text("solve_parsed.txt").decode() == "".join(map(render, events))
        assert self.text(".ptb/trace.idx").decode() == "".join(map(index.encode, events))
        assert done["raw_size"] == len(raw) and done["raw_sha256"] == hashlib.sha256(raw).hexdigest()
        assert done["out_size"] == len(out)
        assert done["lines"] == len(raw.split(b"\n")) - (raw.endswith(b"\n") or not raw)
        assert not (self.scratch / "lag.json").exists()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def started(place: Place) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_killed_ten_times_and_every_line_once(place: Place, started: list[subprocess.Popen[bytes]]) -> None:
    count = 500
    agent = f"for i in $(seq {count}); do echo line $i; sleep 0.008; done"
    writer = subprocess.Popen(["bash", "-c", f"({agent}) 2>&1 | cat >> {place.raw}"])
    started.append(writer)
    dice = random.Random(7)
    for _ in range(10):
        follower = place.start()
        started.append(follower)
        until(lambda: (place.scratch / "stamps").exists())
        time.sleep(dice.uniform(0.0, 0.9))  # the moment of the kill is the input of this test
        follower.send_signal(signal.SIGKILL)
        follower.wait()
    last = place.start()
    started.append(last)
    assert writer.wait(60) == 0
    place.end()
    assert last.wait(60) == 0
    assert place.unstamped() == b"".join(b"line %d\n" % n for n in range(1, count + 1))
    place.check("plain")
    late = place.done()["late"]
    assert late and all(0 <= a < b <= place.raw.stat().st_size for a, b in late)


def test_a_second_follower_waits_for_the_first(place: Place, started: list[subprocess.Popen[bytes]]) -> None:
    place.raw.write_bytes(b"a\nb\n")
    started += [place.start(), place.start()]
    until(lambda: (place.scratch / "follow.lock").exists())
    place.end()
    assert [process.wait(60) for process in started] == [0, 0]
    assert place.unstamped() == b"a\nb\n"


def test_the_results_tree_goes_away_and_comes_back(place: Place, started: list[subprocess.Popen[bytes]]) -> None:
    place.raw.write_bytes(b"before\n")
    started.append(place.start())
    until(lambda: (place.run / "solve_out.txt").exists() and place.text().endswith(b"before\n"))
    until(lambda: (place.scratch / "follow.json").exists())
    aside = place.run.with_name("aside")
    place.run.rename(aside)
    place.run.write_text("in the way")
    # What was open stays writable under its new name; only a new follower has to open.
    started[0].kill()
    started[0].wait()
    started.append(place.start())
    until(lambda: (files.read_object(place.scratch / "lag.json") or {}).get("why"))
    with place.raw.open("ab") as file:
        file.write(b"while away\n")
    place.run.unlink()
    aside.rename(place.run)
    place.end()
    assert started[1].wait(60) == 0
    assert place.unstamped() == b"before\nwhile away\n"
    place.check("plain")


def test_no_room_for_a_while(place: Place, started: list[subprocess.Popen[bytes]]) -> None:
    follower = place.start()
    started.append(follower)
    until(lambda: (place.scratch / "stamps").exists())
    _, hard = resource.prlimit(follower.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(follower.pid, resource.RLIMIT_FSIZE, (20_000, hard))
    place.raw.write_bytes(b"0123456789\n" * 2_000)
    until(lambda: (place.scratch / "lag.json").exists())
    resource.prlimit(follower.pid, resource.RLIMIT_FSIZE, (hard, hard))
    place.end()
    assert follower.wait(90) == 0
    assert place.unstamped() == b"0123456789\n" * 2_000
    place.check("plain")


def test_secrets_and_bad_bytes(place: Place, started: list[subprocess.Popen[bytes]]) -> None:
    place.raw.write_bytes(b"\xff\xfe \x00 key=" + SECRET.encode() + b"\n\xc3(\nno end")
    place.end()
    started.append(place.start())
    assert started[0].wait(60) == 0
    assert place.unstamped() == b"\xff\xfe \x00 key=[redacted:A_API_KEY]\n\xc3(\nno end"
    assert place.done()["redacted"] == {"A_API_KEY": 1}
    place.check("plain")


def test_no_output_at_all(place: Place, started: list[subprocess.Popen[bytes]]) -> None:
    place.end()
    started.append(place.start())
    assert started[0].wait(60) == 0
    assert (place.text(), place.done()["lines"]) == (b"", 0)


def test_waits_until_the_secrets_are_known(place: Place, started: list[subprocess.Popen[bytes]]) -> None:
    place.raw.write_bytes(SECRET.encode() + b"\n")
    place.end()
    kept = place.env_file.rename(place.env_file.with_name("kept"))
    started.append(place.start())
    until(lambda: "secrets" in (files.read_object(place.scratch / "lag.json") or {}).get("why", ""))
    assert not (place.run / "solve_out.txt").exists()
    kept.rename(place.env_file)
    assert started[0].wait(60) == 0
    assert place.unstamped() == b"[redacted:A_API_KEY]\n"


def test_a_results_tree_that_does_not_answer_is_noticed(place: Place) -> None:
    lag = follow.Lag(place.scratch / "lag.json")
    outputs = Outputs([place.run / "a"], [0], lag.begin)
    reader = follow.Reader(place.scratch, lag, lambda: outputs)
    reader.start()
    outputs.busy_since = time.monotonic() - follow.HANG_S - 1
    until(lambda: (place.scratch / "lag.json").exists())
    said = files.read_object(place.scratch / "lag.json") or {}
    assert "does not answer" in said["why"] and said["since"].endswith("Z")
    reader.stopped.set()
    reader.join()
    again = follow.Lag(place.scratch / "lag.json")  # a new follower knows since when
    again.begin("no space")
    assert (files.read_object(place.scratch / "lag.json") or {})["since"] == said["since"]
    again.end()
    assert not (place.scratch / "lag.json").exists()


def test_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert follow.main(["scratch"]) == 2
    assert "usage" in capsys.readouterr().err


# ---------------------------------------------------------------- in one process, with every system call as kill point


class Killed(BaseException):
    pass


class Kill:
    """Stops the follower at its n-th write, flush, cut, rename or open; a write may be half done."""

    def __init__(self, patch: pytest.MonkeyPatch, after: int) -> None:
        self.left = after
        for name in ("pwrite", "fdatasync", "ftruncate", "replace", "open"):
            patch.setattr(os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left >= 0:
                return real(*args, **kwargs)
            if name == "pwrite":
                real(args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
            raise Killed

        return call


def settle(follower: follow.Follower) -> None:
    while follower.step():
        pass


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["claude.merged.txt", "hostile_trace.txt", "claude_truncated_tail.jsonl"]),
    st.sampled_from(["plain", "claude"]),
    st.lists(st.integers(0, 60), max_size=12),
    st.lists(st.integers(0, 8000), max_size=5),
    st.sampled_from([0.0, 1e9]),
    st.integers(0, 2),
)
def test_killed_at_any_call(
    name: str, family: str, kills: list[int], cuts: list[int], checkpoint_s: float, harm: int
) -> None:
    data = (SAMPLES / name).read_bytes() + SECRET.encode()
    edges = [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    folder = Path(tempfile.mkdtemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "CHECKPOINT_S", checkpoint_s)
        place = Place(folder)
        secrets = {"A_API_KEY": SECRET}
        marks = MarkWriter(place.scratch / "stamps")
        marks.look(place.raw)
        written = 0
        follower: follow.Follower | None = None
        for number, edge in enumerate(edges):
            with place.raw.open("ab") as file:
                file.write(data[written:edge])
            written = edge
            marks.look(place.raw, 3600.0 * number)
            if kills:
                with pytest.MonkeyPatch.context() as inner:
                    Kill(inner, kills.pop())
                    try:
                        follower = follower or follow.Follower(place.scratch, place.ptb, family, secrets)
                        settle(follower)
                    except Killed:
                        follower = None  # its files stay open, as they may after a kill on a network file system
        if harm == 1:
            (place.run / "solve_parsed.txt").unlink(missing_ok=True)
            follower = None
        if harm == 2:
            (place.scratch / "follow.json").write_text("torn")
            follower = None
        place.end()
        while kills:
            with pytest.MonkeyPatch.context() as inner:
                Kill(inner, kills.pop())
                try:
                    follower = follow.Follower(place.scratch, place.ptb, family, secrets)
                    settle(follower)
                    assert not follower.complete or follower.finish()
                    break
                except Killed:
                    follower = None
        follower = follow.Follower(place.scratch, place.ptb, family, secrets)
        settle(follower)
        assert follower.complete and follower.finish()
        raw = place.raw.read_bytes()
        assert place.unstamped() == raw.replace(SECRET.encode(), b"[redacted:A_API_KEY]")
        assert place.done()["redacted"] == {"A_API_KEY": 1}
        place.check(family)
        times = {line[:23] for line in place.text().split(b"\n") if line}
        assert len(times) <= len(edges)
    shutil.rmtree(folder)
