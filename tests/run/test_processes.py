"""What belongs to a sandbox, as the kernel tells it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptb_tui.run import processes
from ptb_tui.sandbox.base import Request
from ptb_tui.sandbox.bubblewrap import Bubblewrap

pytestmark = pytest.mark.bubblewrap


@pytest.fixture
def box(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    works, reason = Bubblewrap().probe()
    if not works:
        pytest.skip(reason)
    (tmp_path / "scratch 'ü'" / "home" / "task").mkdir(parents=True)
    asked = Request(("sleep", "4720"), tmp_path / "scratch 'ü'" / "home", "task", env={"PATH": "/usr/bin:/bin"})
    command = Bubblewrap().command(asked)
    with subprocess.Popen(command.argv, env=command.env, cwd="/") as process:
        limit = time.monotonic() + 20
        while not any(_line(pid) == b"sleep\x004720\0" for pid in processes.descendants(process.pid)):
            assert time.monotonic() < limit
            time.sleep(0.02)
        yield process
        process.kill()


def _line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_who_is_told_to_end(box: subprocess.Popen[bytes]) -> None:
    tree = [box.pid, *processes.descendants(box.pid)]
    assert [_line(pid) for pid in processes.inside(tree)] == [b"sleep\x004720\0"]
    assert processes.polite(tree, "") == processes.inside(tree)
    assert processes.inside([os.getpid(), 999999999]) == []
    assert processes.polite([os.getpid()], "") == [os.getpid()] == processes.polite([os.getpid()], sys.executable)


def test_a_sandbox_is_found_by_what_it_has_mounted(box: subprocess.Popen[bytes], tmp_path: Path) -> None:
    found = set(processes.mounted(tmp_path / "scratch 'ü'"))
    assert set(processes.inside(processes.descendants(box.pid))) <= found and os.getpid() not in found
    assert not list(processes.mounted(tmp_path / "scratch")), "a longer name is another's"
    assert not list(processes.mounted(tmp_path / "nothing"))


def test_what_a_killed_shim_left_is_ended_without_a_mark(box: subprocess.Popen[bytes], tmp_path: Path) -> None:
    processes.end_marked(b"PTB_STEP=/nowhere", b"PTB_RELAY=/nowhere", tmp_path / "scratch 'ü'")
    assert box.wait(20) != 0 and not list(processes.mounted(tmp_path))
