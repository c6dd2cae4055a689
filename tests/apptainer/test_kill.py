"""Nothing of a real container survives its shim, however either of them ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.run import processes
from tests.apptainer.conftest import Boxes, until

pytestmark = pytest.mark.apptainer
DAEMONS = "setsid bash -c 'setsid sleep 4712 & sleep 4713' >/dev/null 2>&1 & env -i setsid sleep 4714 & "


def record(boxes: Boxes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((boxes.place / "step" / "exit.json").read_text())
    return found


def raw(boxes: Boxes) -> str:
    path = boxes.place / "raw"
    return path.read_text() if path.exists() else ""


def test_term_reaches_the_trap_and_nothing_is_left(either: Boxes) -> None:
    script = DAEMONS + "trap 'echo saved >model; sync; echo bye; exit 3' TERM; echo ready; while :; do sleep 0.1; done"
    shim = either.shim(script, grace_s=20)
    until(lambda: "ready" in raw(either), "the agent runs")
    shim.terminate()
    assert shim.wait(40) == 0
    found = record(either)
    assert (found["rc"], found["killed"], found["left_alive"]) == (3, False, []), (found, raw(either))
    assert (either.home / "task" / "model").read_text() == "saved\n" and raw(either).split()[-1] == "bye"
    assert either.alive() == []


def test_kill_after_the_grace_leaves_no_helper(either: Boxes) -> None:
    shim = either.shim(DAEMONS + "trap '' TERM; echo ready; while :; do sleep 0.1; done", deadline_s=3)
    until(lambda: "ready" in raw(either), "the agent runs")
    assert any("squashfuse" in line or "fuse-overlayfs" in line for line in either.alive()) or either.alive()
    assert shim.wait(40) == 0
    found = record(either)
    assert (found["stopped"], found["killed"], found["left_alive"]) == ("deadline", True, []), found
    assert either.alive() == []


def test_an_end_of_its_own_takes_daemons_along(boxes: Boxes) -> None:
    assert boxes.shim(DAEMONS + "echo done; exit 5").wait(40) == 0
    assert record(boxes)["rc"] == 5 and boxes.alive() == []


def test_the_runtime_killed_from_outside(boxes: Boxes) -> None:
    shim = boxes.shim(DAEMONS + "echo ready; sleep 4715")
    until(lambda: "ready" in raw(boxes), "the agent runs")
    os.kill(json.loads((boxes.place / "shim.json").read_text())["command"]["pid"], signal.SIGKILL)
    assert shim.wait(40) == 0
    found = record(boxes)
    assert (found["signal"], found["left_alive"]) == (9, []) and boxes.alive() == []


def test_shim_and_runtime_killed_together(boxes: Boxes) -> None:
    """What a supervisor does then: helpers keep neither parent nor environment, but they hold the scratch mounted."""
    place = boxes.place
    shim = boxes.shim(DAEMONS + "echo ready; sleep 4716")
    until(lambda: "ready" in raw(boxes), "the agent runs")
    runtime = json.loads((place / "shim.json").read_text())["command"]["pid"]
    assert runtime in set(processes.mounted(place))
    shim.kill()
    os.kill(runtime, signal.SIGKILL)
    shim.wait(20)
    assert until(boxes.alive, "helpers are left")
    processes.end_marked(f"PTB_STEP={place}".encode(), f"PTB_RELAY={place}".encode(), place)
    assert boxes.alive() == []
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in left.splitlines() if line.startswith("sleep 471")]


def test_a_container_that_cannot_start_is_the_site_s_matter(boxes: Boxes) -> None:
    command = boxes.command("true")
    argv = [word if not word.endswith(".sif") else "/nonexistent.sif" for word in command.argv]
    assert boxes.shim("true", argv=argv).wait(40) == 0
    assert "did not start" in record(boxes)["problem"] and "nonexistent" in record(boxes)["problem"]
    assert boxes.shim("exit 255").wait(40) == 0
    assert record(boxes)["problem"] == "" and record(boxes)["rc"] == 255


def test_neighbours_stay(boxes: Boxes) -> None:
    """A scratch whose name begins like another's is not taken for it."""
    other = Boxes(Path(f"{boxes.place}-2"), boxes.sandbox)
    other.place.mkdir(exist_ok=True)
    box = other.start("sleep", "4717")
    try:
        until(lambda: len(other.alive()) >= 2, "the neighbour runs")
        processes.end_marked(b"PTB_STEP=x", b"PTB_RELAY=x", boxes.place)
        assert box.poll() is None
    finally:
        processes.end_marked(b"PTB_STEP=x", b"PTB_RELAY=x", other.place)
        box.communicate(timeout=20)
        from ptb_tui.run.erasing import erase

        erase(other.place)
