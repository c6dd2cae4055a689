"""The second in which an agent is executed, which its timer and its end count from. Standard library alone.

What runs before the agent (`agents/_shared/agent_start.sh`, H §1.8) becomes the agent by `exec`: one process, another
program. It is seen from outside the sandbox, so nothing that an agent writes moves its own end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from ptb_tui.core import clock

APPEARS_S = 10.0  # from the start of a sandbox until its first program is seen
LONGEST_S = 900.0  # of what runs before the agent
LOOK_S = 0.25


class Zero:
    """Watches for it. `starter` is the file name of the script that becomes the agent; empty: the agent runs at once.

    `known` is true once there is nothing more to wait for.
    """

    def __init__(self, starter: str, start: float) -> None:
        self._starter, self._start = os.fsencode(starter), start
        self._pid = 0
        self.known = not starter

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
        if not self._pid:
            self._pid = next((pid for pid in tree if self._runs_starter(pid)), 0)
        elif not self._runs_starter(self._pid):
            self.known = True
            return now
        self.known = now - self._start > (LONGEST_S if self._pid else APPEARS_S)
        return None
