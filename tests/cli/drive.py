"""Starts the command line as a process: with pipes, or in a terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).parents[2]
SWEEP = Path(__file__).with_name("demo.toml")
PATIENCE = 30.0  # seconds; a bound, not a measure


def environment(home: Path, **more: str) -> dict[str, str]:
    """A small environment of its own; "" removes a variable."""
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(REPO),
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "XDG_CONFIG_HOME": str(home / "config"),
        "POST_TRAIN_BENCH_RESULTS_DIR": str(home / "results"),
        **more,
    }
    return {name: value for name, value in env.items() if value != ""}


def fake(scenario: str, *argv: str) -> list[str]:
    """The command line over a fake site."""
    return [sys.executable, "-m", "tests.cli.fakesite", scenario, *argv]


def real(*argv: str) -> list[str]:
    """The command line as it is."""
    return [sys.executable, "-m", "ptb_tui", *argv]


def finish(argv: Sequence[str], env: dict[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run to the end with pipes and an empty stdin."""
    return subprocess.run(
        argv, env=env, cwd=cwd or REPO, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )


@dataclass
class Terminal:
    """A process in a terminal of its own, of which it is the session leader."""

    pid: int
    fd: int
    text: str = ""

    def until(self, found: Callable[[str], bool]) -> str:
        """Read until the text satisfies `found`; fails after the patience or at the end."""
        deadline = time.monotonic() + PATIENCE
        while not found(self.text):
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"not seen in: {self.text!r}")
        return self.text

    def _read(self, left: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], max(0.0, left))
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.text += data.decode("utf-8", "replace")
        return bool(data)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.fd, text.encode())

    def end(self) -> int:
        """Read what remains and return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline - time.monotonic()):
            pass
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            select.select([], [], [], 0.02)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"still running: {self.text!r}")


def in_terminal(argv: Sequence[str], env: dict[str, str], size: tuple[int, int] = (120, 40)) -> Terminal:
    """Start a process in a new terminal."""
    import fcntl
    import struct
    import termios

    pid, fd = pty.fork()
    if pid == 0:
        try:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            os.chdir(REPO)
            os.execve(argv[0], list(argv), env)
        finally:
            os._exit(127)
    return Terminal(pid, fd)
