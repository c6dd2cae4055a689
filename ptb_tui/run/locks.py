"""Locks on this machine's own disk, inherited by whoever does the work (local_queue C.2, design §5 Places).

    run-<id>   held by the supervisor, its children and the shim: busy = something of this run still works
    sup-<id>   held by the supervisor alone: busy = somebody looks after this run
    slot-<…>   like run-<id>; GPU slots are machine-wide, in a folder that all users share

Standard library alone; flock only, never on a shared file system.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ptb_tui.core import clock, files
from ptb_tui.core.errors import StorageError
from ptb_tui.core.layout import Root

GPU_SLOTS = Path("/var/tmp/ptb-slots")


def state_folder(root: Root) -> Path:
    """This user's lock folder for this root, made if needed. StorageError when somebody else made it."""
    for folder in (root.state.parent, root.state):
        own_folder(folder)
    return root.state


def own_folder(folder: Path) -> None:
    """Make a folder that this user alone can enter, or take the one that is there.

    StorageError when it is a link or belongs to somebody else, who could put there what we would run. Otherwise
    OSError, and then there is none.
    """
    try:
        info = os.lstat(folder)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        info = os.lstat(folder)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
        raise StorageError(f"{folder} belongs to somebody else", hint="remove it or ask its owner to")
    if stat.S_IMODE(info.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def take(path: Path) -> int | None:
    """Take a lock without waiting: its descriptor, or None when it is busy. Closing every copy releases it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


@contextlib.contextmanager
def waited(path: Path) -> Iterator[None]:
    """Hold a lock, waiting for it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def busy(path: Path) -> bool:
    """Whether somebody holds the lock."""
    fd = take(path)
    if fd is None:
        return True
    os.close(fd)
    return False


def take_gpu(uuid: str) -> int | None:
    """Take a machine-wide GPU slot. The file is opened read-only, so that every account can lock it."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(GPU_SLOTS)
        os.chmod(GPU_SLOTS, 0o1777)
    path = GPU_SLOTS / uuid
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def run_lock(root: Root, run_id: int) -> Path:
    """Path of `run-<id>`."""
    return root.state / f"run-{run_id}.lock"


def supervisor_lock(root: Root, run_id: int) -> Path:
    """Path of `sup-<id>`."""
    return root.state / f"sup-{run_id}.lock"


def note_holder(root: Root, name: str, run_id: int) -> None:
    """Write beside a slot who holds it, for people; the lock alone decides."""
    kind, _, rest = name.partition(":")
    words = f"run {run_id} of {getpass.getuser()} since {clock.utc_text()}"
    with contextlib.suppress(OSError):
        files.replace(root.state / f"slot-{kind}-{rest}.txt", words)


def holder(root: Root, name: str) -> str:
    """Who was noted for a slot last."""
    kind, _, rest = name.partition(":")
    return (files.read_bytes(root.state / f"slot-{kind}-{rest}.txt", 500) or b"").decode("utf-8", "replace")


def take_slot(root: Root, name: str) -> int | None:
    """Take `gpu:<uuid>` or `cpu:<n>`."""
    kind, _, rest = name.partition(":")
    return take_gpu(rest) if kind == "gpu" else take(root.state / f"slot-cpu-{rest}.lock")
