"""Process trees from /proc, and signals to exactly one process. Standard library alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ptb_tui.core import clock

_PR_SET_CHILD_SUBREAPER = 36
_END_S = 10.0
_MOUNTS = 4 << 20  # bytes of a list of mounts that are read


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


def inside(pids: Iterable[int]) -> list[int]:
    """Those of a process namespace below ours, its first process excepted: what runs in a sandbox, without the
    sandbox itself. The kernel says it, so a command can neither pretend nor hide."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status", "rb") as file:
            line = next((line for line in file.read().splitlines() if line.startswith(b"NSpid:")), b"")
            numbers = [int(part) for part in line.split()[1:]]
            if len(numbers) > 1 and numbers[1] != 1:
                found.append(pid)
    return found


def polite(tree: Sequence[int], runtime: str) -> list[int]:
    """Whom to tell that a command has to end: everything of the command. What holds its sandbox (helpers of a file
    system among it) would take the ground from under it, so it is told nothing while something runs inside."""
    return inside(tree) or [pid for pid in tree if not (runtime and runs_file(pid, runtime))] or list(tree)


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


def mounted(folder: Path) -> Iterator[int]:
    """Processes of this user in another mount namespace that has something below `folder` mounted.

    That is what a sandbox consists of: helpers of file systems keep no environment that could be recognised. Nobody is
    found for a folder that is a whole file system, which other namespaces have for reasons of their own.
    """
    place = _source(folder)
    own = _namespace("self")
    for name in os.listdir("/proc") if place and place[1] else ():
        if name.isdigit() and _namespace(name) not in (own, ""):
            with contextlib.suppress(OSError), open(f"/proc/{name}/mountinfo", "rb") as file:
                if any(_below(line.split(b" ")[2:4], place) for line in file.read(_MOUNTS).splitlines()):
                    yield int(name)


def _namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def _source(folder: Path) -> list[bytes]:
    """Device and path within it of a folder, in the words of mountinfo; empty when that is not told."""
    best: tuple[int, list[bytes]] = (-1, [])
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", "rb") as file:
        real = os.path.realpath(os.fsencode(folder)).rstrip(b"/")
        for line in file.read(_MOUNTS).splitlines():
            device, root, point = line.split(b" ")[2:5]
            at = _unescaped(point).rstrip(b"/")
            if (real + b"/").startswith(at + b"/") and len(at) >= best[0]:
                best = (len(at), [device, _unescaped(root).rstrip(b"/") + real[len(at) :]])
        return best[1] if best[0] < len(real) else []  # a mount point is what every namespace has a copy of
    return []


def _below(found: list[bytes], place: list[bytes]) -> bool:
    return found[:1] == place[:1] and (_unescaped(found[1]) + b"/").startswith(place[1] + b"/")


def _unescaped(path: bytes) -> bytes:
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), path)


def end_marked(command: bytes, relay: bytes, scratch: Path | None = None) -> None:
    """End what a killed shim left alive: its command's processes and what held their sandbox, then, once it has
    drained their output, its relay."""
    for token, at_once in ((command, True), (relay, False)):
        limit = clock.monotonic() + _END_S
        while left := [*marked(token), *(mounted(scratch) if scratch is not None and at_once else ())]:
            late = clock.monotonic() > limit
            for pid in left if at_once or late else ():
                send(pid, signal.SIGKILL)
            if late:
                break
            time.sleep(0.05)
