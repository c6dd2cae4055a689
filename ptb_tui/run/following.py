"""The follower of a step, seen from its supervisor: started, and started again when it dies (design §5, "The trace's
way"). Standard library alone.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path

from ptb_tui.core import clock, files

_LONGEST_WAIT_S = 10.0
_END_S = 10.0  # from its last file to its end


class Following:
    """Keeps one follower at work on the scratch of an agent step."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._due, self._wait = 0.0, 0.5

    @property
    def done(self) -> bool:
        """Whether the whole trace is where it belongs."""
        return (self.scratch / "follow.done").exists()

    def tend(self, argv: Callable[[str], list[str]]) -> None:
        """Start it when it is not at work; `argv` makes its command line from the trace's family."""
        if self.done or (self._process is not None and self._process.poll() is None):
            return
        now = clock.monotonic()
        if self._process is not None:
            self._process, self._due = None, now + self._wait
            self._wait = min(_LONGEST_WAIT_S, self._wait * 2)
        if now >= self._due:
            family = str((files.read_object(self.scratch / "launch.json") or {}).get("trace") or "plain")
            with open(self.scratch / "follow.log", "ab") as log:
                self._process = subprocess.Popen(
                    argv(family), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
                )

    def end(self) -> None:
        """Wait a little for one that has written its last file."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
