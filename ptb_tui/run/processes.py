"""Process trees from /proc, and signals to exactly one process. Standard library alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator

from ptb_tui.core import clock

_PR_SET_CHILD_SUBREAPER = 36
_END_S = 10.0


def become_subreaper() -> bool:
    """Orphans below the caller become its children, so that no daemon leaves the tree. False where not to be had."""
    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _parents() -> dict[int, int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
            fields = text[text.rfind(b")") + 2 :].split()
            if fields[0] not in (b"Z", b"X"):
                parents[int(name)] = int(fields[1])
    return parents


def descendants(root: int, spare: Iterable[int] = ()) -> list[int]:
    """Living processes below `root`, nearest first, without those below (and including) the spared ones."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    spared, found, todo = set(spare), [], [root]
    while todo:
        for pid in children.get(todo.pop(0), ()):
            if pid not in spared:
                found.append(pid)
                todo.append(pid)
    return found


def runs_file(pid: int, path: str) -> bool:
    """Whether a process executes this file."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", path)
    except OSError:
        return False


def send(pid: int, number: int) -> None:
    """Signal one process; a process that is gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def send_exactly(process: clock.Process | None, number: int) -> bool:
    """Signal a process by its identity, so that a reused pid is never hit."""
    if process is None or not clock.alive(process):
        return False
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not clock.alive(process):
            return False
        signal.pidfd_send_signal(fd, number)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def marked(variable: bytes) -> Iterator[int]:
    """Processes of this user whose environment holds `NAME=value`; finds what left its tree."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if variable in file.read().split(b"\0"):
                    yield int(name)


def end_marked(command: bytes, relay: bytes) -> None:
    """End what a killed shim left alive: its command's processes, then, once it has drained their output, its relay."""
    for token, at_once in ((command, True), (relay, False)):
        limit = clock.monotonic() + _END_S
        while left := list(marked(token)):
            late = clock.monotonic() > limit
            for pid in left if at_once or late else ():
                send(pid, signal.SIGKILL)
            if late:
                break
            time.sleep(0.05)
