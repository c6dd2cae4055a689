"""A results file system that does not answer for two minutes: the agent goes on and its trace is whole."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from ptb_tui.core import clock, files
from tests.e2e.conftest import Lab, until

FROZEN_S = 120.0
LINES = 15000  # a hundred each second
LONG = 300.0

pytestmark = [
    pytest.mark.testbed,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("bindfs") or not os.path.exists("/dev/fuse"),
        reason="needs root, bindfs and /dev/fuse",
    ),
]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[tuple[Lab, subprocess.Popen[bytes]]]:
    """A lab whose results root is a FUSE mount, and the process behind it. Thawed and unmounted whatever happens."""
    lab = Lab(tmp_path)
    behind = tmp_path / "behind"
    behind.mkdir()
    lab.results.mkdir()
    server = subprocess.Popen(["bindfs", "-f", str(behind), str(lab.results)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: os.path.ismount(lab.results) or server.poll() is not None, "the mount")
        if server.poll() is not None:
            pytest.skip("bindfs cannot mount here")
        yield lab, server
    finally:
        server.send_signal(signal.SIGCONT)
        try:
            lab.close()
        finally:
            for command in (["fusermount", "-u"], ["umount", "-l"]):
                with contextlib.suppress(OSError):
                    if subprocess.run([*command, str(lab.results)], capture_output=True, check=False).returncode == 0:
                        break
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            server.kill()
            server.wait()


def test_a_frozen_results_tree_costs_no_line_and_no_time(mounted: tuple[Lab, subprocess.Popen[bytes]]) -> None:
    lab, server = mounted
    sweep = lab.sweep(f"lines{LINES}+model")
    batch = lab.start("--batch", sweep, "--yes", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        scratch = until(lambda: next(lab.base.glob("scratch/*/*/001-agent/shim.json"), None), "the shim", LONG).parent
        raw = scratch / "raw"
        command = clock.process_from((files.read_object(scratch / "shim.json") or {})["command"])
        out = lab.run_dir() / "solve_out.txt"
        until(lambda: out.exists() and out.read_bytes().count(b"\n") >= 100, "some lines in the trace", LONG)
        # From here to the thaw nothing in this process may touch the mount.
        server.send_signal(signal.SIGSTOP)
        begun, frozen = time.time(), time.monotonic()
        seen: list[tuple[float, int]] = []  # what had been printed when
        while time.monotonic() - frozen < FROZEN_S:
            seen.append((time.time(), raw.read_bytes().count(b"\n")))
            assert clock.alive(command), "the agent ended while its results tree hung"
            time.sleep(1.0)
        ended = time.time()
        printed = seen[-1][1] - seen[0][1]
        assert printed > FROZEN_S * 100 * 0.8, f"the agent printed {printed} lines in {FROZEN_S:.0f} s"
        lag = json.loads((scratch / "lag.json").read_text())
        assert "does not answer" in lag["why"]
        server.send_signal(signal.SIGCONT)
        until(lambda: batch.poll() is not None, "the batch to end", LONG)
        assert batch.returncode == 0
    finally:
        server.send_signal(signal.SIGCONT)
        batch.kill()
        batch.wait()
    stamps, words = [], []
    for line in out.read_text().splitlines():
        stamp, _, rest = line.partition("] ")
        stamps.append(datetime.fromisoformat(stamp.removeprefix("[")).timestamp())
        words.append(rest)
    assert words == [f"line {number:06d} of an agent that keeps talking" for number in range(LINES)]
    assert stamps == sorted(stamps)
    for when, lines in seen:  # stamps are whole seconds
        if lines:
            assert when - 10.0 <= stamps[lines - 1] <= when + 1.0, f"line {lines - 1} was there at {when}"
    during = {stamp for stamp in stamps if begun <= stamp <= ended}
    assert len(during) > FROZEN_S * 0.8, "stamps go on through the freeze"
    (row,) = [run for line in lab.json("runs") for run in line.get("runs", [line])]
    assert row["worth"] == "scored"
