"""Agents that fill disks: the run says `disk_full`, keeps what was made, and does not take the machine with it.

Disks here are in memory and of fixed size, so that no test can fill a real one.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptb_tui.core import events
from tests.e2e.conftest import until
from tests.hostile.conftest import NOBODY, Arena, place
from tests.hostile.lab import Attack, HostileLab

pytestmark = [pytest.mark.hostile, pytest.mark.bubblewrap]
FULL = ("failed", "disk_full")


@contextlib.contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[None]:
    """A file system of its own in place of an empty folder; skips where none can be mounted."""
    folder.mkdir(exist_ok=True)
    options = f"size={mib}m,uid={NOBODY},gid={NOBODY},mode=755"
    words = ["mount", "-t", "tmpfs", "-o", options, "ptb-hostile", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def lab() -> Iterator[HostileLab]:
    with place("bubblewrap", nobody=True) as found:
        yield found


def test_over_its_share_a_run_is_stopped(lab: HostileLab) -> None:
    attack = Attack("model+hoard+sleep600", protocol="small")
    run = Arena(lab, (attack,)).of(attack)
    assert (run.dir / "task" / "hoard.bin").stat().st_size > 32 << 20, "it was under way"
    assert run.end == FULL and run.worth.startswith("failed")
    record = run.record("steps/001-agent/exit.json")
    assert record["stopped"] == "disk_full" and record["left_alive"] == []
    assert (run.dir / "final_model" / "config.json").is_file(), "what was made so far is kept"


def test_a_full_scratch_keeps_exit_record_trace_and_model(lab: HostileLab) -> None:
    attack = Attack("model+hoard+exit3", protocol="unjudged")
    with small_disk(lab.base / "scratch", 96):
        run = Arena(lab, (attack,)).of(attack)
        assert run.end == FULL
        record = run.record("steps/001-agent/exit.json")
        assert record["rc"] == 3 and record["full"] and record["left_alive"] == []
        assert (run.dir / "final_model" / "config.json").is_file()
        lab.close()


def test_a_full_scratch_does_not_protect_from_being_stopped(lab: HostileLab) -> None:
    attack = Attack("model+hoard+sleep600", protocol="unjudged")
    with small_disk(lab.base / "scratch", 96):
        path = lab.write((attack,))
        process = lab.start("--batch", path, "--yes", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        scratch = lab.step_scratch()
        until(lambda: os.statvfs(scratch).f_bavail == 0, "a full disk", 120)
        lab.run("cancel", str(lab.ids()[-1]))
        assert process.wait(120) == 1
        (run_dir,) = lab.run_dirs()
        (step,) = (run_dir / ".ptb" / "steps").glob("001-agent")
        ended = [event.data for event in events.read(step).events if event.kind == "ended"]
        assert [(data["outcome"], data["cause"]) for data in ended] == [("cancelled", "operator")]
        assert (run_dir / "final_model" / "config.json").is_file()
        lab.close()


def test_a_full_results_tree_keeps_the_scratch_and_says_so(lab: HostileLab) -> None:
    attack = Attack("model+hoard", protocol="unjudged")
    other = lab.results / "other_10h"
    lab.watched.remove(other)
    with small_disk(lab.results, 64):
        run = Arena(lab, (attack,)).of(attack)
        assert run.end == FULL
        assert (run.dir / "final_model" / "config.json").is_file(), "the model comes first"
        assert not (run.dir / ".task.partial").exists(), "an unfinished copy holds no room"
        found = {event.kind: event.data for event in events.read(run.files.steps / "001-agent").events}
        kept = Path(found["model_at_risk"]["path"])
        assert (kept / "home" / "task" / "hoard.bin").stat().st_size == 200 << 20
        lab.close()
