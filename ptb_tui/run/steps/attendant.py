"""The companion of one session of a judge: its gateway and its broker, a process beside the sandbox (design §5)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from ptb_tui.core import clock, files
from ptb_tui.core.errors import StepError
from ptb_tui.run import place
from ptb_tui.run.renewing import RENEWING

GATEWAY_S = 30.0  # until its socket is there
END_S = 10.0
RENEWAL_S = 60.0  # for a renewal that was begun: a refresh token can be used once


class Companion:
    """The companion of one session; started again when it dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._due, self._wait = 0.0, 0.2
        self._child: subprocess.Popen[bytes] | None = None
        self.tend()

    @property
    def pids(self) -> tuple[int, ...]:
        """Its process, when it lives."""
        return (self._child.pid,) if self._child is not None else ()

    def tend(self) -> None:
        """Start it when it is not there, with pauses that grow."""
        if self._child is not None and self._child.poll() is not None:
            self._child, self._due = None, clock.monotonic() + self._wait
            self._wait = min(5.0, 2 * self._wait)
        if self._child is not None or clock.monotonic() < self._due:
            return
        # Without the mark of the step: a renewal that it began is not to be ended with the step.
        env = {key: value for key, value in os.environ.items() if key != "PTB_STEP"}
        with open(self._folder / "companion.log", "ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-I", str(place.entry()), "companion", str(self._folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=env,
                start_new_session=True,
            )

    def ready(self, socket: Path) -> None:
        """Wait for its socket. StepError when it does not come."""
        limit = clock.monotonic() + GATEWAY_S
        while not socket.exists():
            if clock.monotonic() > limit:
                said = (files.read_bytes(self._folder / "companion.log", 1 << 16) or b"")[-300:]
                words = said.decode("utf-8", "replace").strip() or "it says nothing"
                raise StepError(f"the gateway of the judge did not start: {words}", cause="sandbox")
            self.tend()
            time.sleep(0.05)

    def end(self) -> None:
        """End it, and wait for a renewal that it began."""
        if self._child is not None:
            self._child.terminate()
            try:
                self._child.wait(END_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
            self._child = None
        limit = clock.monotonic() + RENEWAL_S
        while clock.monotonic() < limit and renewals(self._folder):
            time.sleep(0.05)


def renewals(folder: Path) -> list[int]:
    """The renewal of the login that a companion of this session began, while it asks the vendor. It says who it is
    outside the sandbox, where a judge cannot pretend to be one."""
    renewal = clock.process_from(files.read_object(folder / RENEWING, 4096))
    return [renewal.pid] if renewal is not None and clock.alive(renewal) else []
