"""How much disk a step's scratch holds, measured again and again without holding up whoever asks.

`run.walk` does the walk in a process of its own: it copes with any depth, name and rights. What an agent deleted but
keeps open is added from the open files of its processes. Standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptb_tui.core import clock
from ptb_tui.run import processes

FIRST_S = 2.0  # after the start of the command
LEAST_S = 10.0  # between the end of a measurement and the next
SHARE = 20  # a measurement may take one part in so many of the time
LONGEST_S = 120.0  # but it comes after this time, however long one takes
ENTRIES = 4_000_000  # files and folders a step may have; a walk ends there
WALK = Path(__file__).with_name("walk.py")
FILES = 20000  # open files that are looked at


def most_bytes(*tables: Mapping[str, Any]) -> float:
    """What a step may hold: the smallest `scratch_gib` that the tables (spec, site) say; 0 when none does."""
    words = [table.get("scratch_gib") for table in tables]
    return min((float(said) for said in words if isinstance(said, int | float)), default=0.0) * (1 << 30)


class Usage:
    """Measures one folder; `bytes` is the last result, None before the first, and more than any limit where a step has
    more than `ENTRIES` files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bytes: int | None = None
        self._due = clock.monotonic() + FIRST_S
        self._began = 0.0
        self._walk: subprocess.Popen[bytes] | None = None

    def poll(self, roots: Sequence[int]) -> int | None:
        """Go on measuring; the newest result. The command's processes are those below `roots`. Never waits."""
        now = clock.monotonic()
        if self._walk is None:
            if now >= self._due:
                self._began = now
                with contextlib.suppress(OSError):
                    self._walk = subprocess.Popen(
                        [sys.executable, "-I", "-S", str(WALK), str(self.folder), str(ENTRIES)],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL,
                        cwd="/",
                        start_new_session=True,
                    )
                self._due = now + LEAST_S
        elif self._walk.poll() is not None:
            walk, self._walk = self._walk, None
            self._due = now + min(LONGEST_S, max(LEAST_S, SHARE * (now - self._began)))
            assert walk.stdout is not None
            with walk.stdout, contextlib.suppress(ValueError, IndexError, OSError):
                said = walk.stdout.read(4096).split()
                counted = int(said[0]) if said[1] == b"whole" else sys.maxsize
                self.bytes = counted + deleted(_below(roots), self.folder)
        return self.bytes

    def close(self) -> None:
        """End a measurement that is under way."""
        if self._walk is not None:
            self._walk.kill()
            self._walk.wait()
            if self._walk.stdout is not None:
                self._walk.stdout.close()
            self._walk = None


def _below(roots: Sequence[int]) -> list[int]:
    return [pid for root in roots for pid in processes.descendants(root)]


def deleted(pids: Sequence[int], folder: Path) -> int:
    """Bytes on the folder's file system that these processes hold in files without a name."""
    total, seen = 0, set[int]()
    try:
        device = folder.lstat().st_dev
    except OSError:
        return 0
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    info = os.stat(entry.path)
                    nameless = info.st_nlink == 0 and info.st_dev == device and stat.S_ISREG(info.st_mode)
                    if nameless and info.st_ino not in seen:
                        seen.add(info.st_ino)
                        total += info.st_blocks * 512
                if len(seen) > FILES:
                    return total
    return total
