"""The second in which an agent is executed, seen from outside."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptb_tui.core import clock
from ptb_tui.run.zero import Zero
from tests.run.test_shim import Start, exit_record
from tests.run.test_shim import start as start


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    script = tmp_path / "agent_start.sh"
    script.write_text("read -r _\nexec sleep 60\n")
    process = subprocess.Popen(["bash", str(script)], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_it_is_when_the_starter_becomes_the_agent(starter: subprocess.Popen[bytes]) -> None:
    zero = Zero("agent_start.sh", clock.monotonic())
    limit = time.monotonic() + 20
    while not Path(f"/proc/{starter.pid}/cmdline").read_bytes().startswith(b"bash"):
        assert time.monotonic() < limit
    for _ in range(3):
        assert zero.look([starter.pid]) is None and not zero.known
    before = clock.monotonic()
    assert starter.stdin is not None
    starter.stdin.write(b"go\n")
    starter.stdin.flush()
    while (moment := zero.look([starter.pid])) is None:
        assert time.monotonic() < limit
    assert moment >= before and zero.known
    assert zero.look([starter.pid]) is None, "it is told once"


def test_a_second_one_of_that_name_changes_nothing(starter: subprocess.Popen[bytes], tmp_path: Path) -> None:
    zero = Zero("agent_start.sh", clock.monotonic())
    limit = time.monotonic() + 20
    while not Path(f"/proc/{starter.pid}/cmdline").read_bytes().startswith(b"bash"):
        assert time.monotonic() < limit
    zero.look([starter.pid])
    forged = subprocess.Popen(["bash", str(tmp_path / "agent_start.sh")], stdin=subprocess.PIPE)
    try:
        assert starter.stdin is not None
        starter.stdin.write(b"go\n")
        starter.stdin.flush()
        while zero.look([forged.pid, starter.pid]) is None:
            assert time.monotonic() < limit
    finally:
        forged.kill()
        forged.communicate()
    assert zero.known


def test_without_a_starter_there_is_nothing_to_wait_for() -> None:
    assert Zero("", 0.0).known
    late = Zero("agent_start.sh", clock.monotonic() - 3600)
    assert late.look([]) is None and late.known, "a sandbox that never showed it"


def test_the_end_counts_from_it(start: Start, tmp_path: Path) -> None:
    script = tmp_path / "agent_start.sh"
    script.write_text("sleep 2\nexec sleep 60\n")
    shim = start("", argv=["bash", str(script)], deadline_s=1, starter="agent_start.sh")
    assert shim.wait(60) == 0
    record = exit_record(tmp_path)
    assert record["stopped"] == "deadline" and record["elapsed_s"] >= 3, "two before the agent, one of its own"
    assert 2 <= record["zero_s"] <= record["elapsed_s"] - 1


def test_a_sandbox_may_take_its_time_to_stand(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = tmp_path / "began"
    began.touch()
    script = f"sleep 2; true >{began}; sleep 60"
    assert start(script, deadline_s=1, began=str(began)).wait(60) == 0
    record = exit_record(tmp_path)
    assert record["stopped"] == "deadline" and record["elapsed_s"] >= 3 and record["zero_s"] >= 2

    monkeypatch.setattr("ptb_tui.run.zero.APPEARS_S", 0.0)
    zero = Zero("agent_start.sh", clock.monotonic() - 1000, began)
    assert zero.look([]) is None and not zero.known and not zero.has_begun(), "an image is being unpacked"
    os.chmod(began, 0o644)
    before, moment = clock.monotonic(), None
    while not zero.known:
        moment = zero.look([])
    assert zero.has_begun() and moment is not None and moment >= before, "the starter was too quick to be seen"
    late = Zero("", clock.monotonic() - 4000, began)
    assert late.look([]) is None and late.known and not late.has_begun()
