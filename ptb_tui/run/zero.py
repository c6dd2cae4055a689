"""The second in which an agent is executed, which its end counts from. Standard library alone.

A sandbox may take minutes to stand, as an image does that every start unpacks: until the command begins nothing counts.

What runs before the agent (`agents/_shared/agent_start.sh`, H §1.8) becomes the agent by `exec`: one process, another
program. It is seen from outside the sandbox, so nothing that an agent writes moves its own end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from ptb_tui.core import clock
from ptb_tui.sandbox.base import stamp

STANDS_S = 3600.0  # for a sandbox to stand
APPEARS_S = 10.0  # from the beginning in a sandbox until its first program is seen
LONGEST_S = 900.0  # of what runs before the agent
LOOK_S = 0.25


class Zero:
    """Watches for it. `starter` is the file name of the script that becomes the agent; empty: the agent runs at once.
    `began` is the sandbox's file that changes when its command begins, where there is one.

    `known` is true once there is nothing more to wait for, `begun` once the command began.
    """

    def __init__(self, starter: str, start: float, began: Path | None = None) -> None:
        self._starter, self._start = os.fsencode(starter), start
        self._file, self._stamp = began, stamp(began) if began else 0
        self.begun = not self._stamp
        self._pid = 0
        self.known = self.begun and not starter

    def has_begun(self) -> bool:
        """Whether the command began; always true where nothing tells."""
        return self.begun or not self._file or stamp(self._file) != self._stamp

    def _runs_starter(self, pid: int) -> bool:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).split(b"\0")
            return len(words) > 1 and os.path.basename(words[1]) == self._starter
        return False

    def look(self, tree: Iterable[int]) -> float | None:
        """The moment, on `clock.monotonic`, when it has just become known; None before and after. `tree` are the
        processes of the command, nearest first."""
        if self.known:
            return None
        now = clock.monotonic()
        if not self.begun:
            if self._file and stamp(self._file) == self._stamp:
                self.known = now - self._start > STANDS_S
                return None
            self.begun, self._start = True, now
            if not self._starter:
                self.known = True
                return now
        if not self._pid:
            self._pid = next((pid for pid in tree if self._runs_starter(pid)), 0)
        elif not self._runs_starter(self._pid):
            self.known = True
            return now
        self.known = now - self._start > (LONGEST_S if self._pid else APPEARS_S)
        return self._start if self.known and self._stamp else None
