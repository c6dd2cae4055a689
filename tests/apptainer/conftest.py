"""Real containers, wherever Apptainer works for a normal user: on a site, or in a host of the testbed.

`PTB_TEST_IMAGE` names the image (a .sif with bash, python3 and procps); default is the testbed's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.run import processes
from ptb_tui.run.erasing import erase
from ptb_tui.sandbox.apptainer import Apptainer
from ptb_tui.sandbox.base import HOME, Command, Request, apply_limits
from tests.polling import until as until

REPOSITORY = Path(__file__).parents[2]
IMAGE = Path(os.environ.get("PTB_TEST_IMAGE", "/opt/images/standard.sif"))
PATH = "/usr/local/bin:/usr/bin:/bin"


class Boxes:
    """Starts containers over one temporary place."""

    def __init__(self, place: Path, sandbox: Apptainer) -> None:
        self.place, self.sandbox = place, sandbox
        self.home, self.scratch = place / "a home ü", place / "scratch"
        (self.home / "task").mkdir(parents=True)
        self.started: list[subprocess.Popen[bytes]] = []

    def command(self, *argv: str, env: Mapping[str, str] | None = None, **more: Any) -> Command:
        values = {"PATH": PATH, "HOME": HOME} if env is None else env
        more = {"scratch": self.scratch, **more}
        return self.sandbox.command(Request(argv, self.home, more.pop("workdir", "task"), env=values, **more))

    def start(self, *argv: str, **more: Any) -> subprocess.Popen[bytes]:
        command = self.command(*argv, **more)
        process = subprocess.Popen(
            command.argv,
            env=command.env,
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: apply_limits(command.limits),
        )
        self.started.append(process)
        return process

    def run(self, *argv: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        process = self.start(*argv, **more)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def python(self, code: str, *argv: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return self.run("python3", "-I", "-c", code, *argv, **more)

    def shim(self, script: str, **launch: Any) -> subprocess.Popen[bytes]:
        """A shim over a container that runs a script of bash; `self.place` is its scratch, `self.step` its step."""
        (self.place / "step").mkdir(exist_ok=True)
        command = self.command("bash", "-c", script, **launch.pop("request", {}))
        value = {
            "argv": command.argv,
            "cwd": str(command.cwd),
            "limits": command.limits,
            "runtime": self.sandbox.runtime,
            "began": str(command.began),
            "deadline_s": 60,
            "grace_s": 1,
            **launch,
        }
        (self.place / "launch.json").write_text(json.dumps(value))
        shim = subprocess.Popen(
            [sys.executable, "-m", "ptb_tui", "shim", str(self.place), str(self.place / "step")],
            stdin=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        self.started.append(shim)
        assert shim.stdin is not None
        shim.stdin.write(json.dumps({**command.env, "PTB_STEP": str(self.place)}).encode())
        shim.stdin.close()
        shim.stdin = None
        return shim

    def alive(self) -> list[str]:
        """Everything that lives in a mount namespace over this place, helpers of file systems included."""
        return [Path(f"/proc/{pid}/cmdline").read_bytes()[:60].decode() for pid in processes.mounted(self.place)]


def _boxes(flavour: str) -> Iterator[Boxes]:
    found = Apptainer(IMAGE)
    works, reason = found.probe()
    if not works:
        pytest.skip(reason)
    place = Path(tempfile.mkdtemp(prefix="ptb-apptainer-", dir="/var/tmp"))
    if flavour == "singularity":
        stub = place / "singularity"
        stub.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "singularity version 3.11.4" && exit\nexec {found.runtime} "$@"\n'
        )
        stub.chmod(0o755)
        found = Apptainer(IMAGE, name="singularity", executable=str(stub))
    boxes = Boxes(place, found)
    yield boxes
    for process in boxes.started:
        process.kill()
        process.communicate(timeout=30)
    processes.end_marked(f"PTB_STEP={place}".encode(), f"PTB_RELAY={place}".encode(), place)
    assert erase(place), "a normal user can remove what a container left"


@pytest.fixture
def boxes() -> Iterator[Boxes]:
    """The real runtime."""
    yield from _boxes("apptainer")


@pytest.fixture(params=["apptainer", "singularity"])
def either(request: pytest.FixtureRequest) -> Iterator[Boxes]:
    """The real runtime, and the same one under a stub that calls itself an old singularity."""
    yield from _boxes(request.param)
