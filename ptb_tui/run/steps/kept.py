"""Bringing files out of a home in which an evaluation ran: regular files, no link followed, bounded in all ways."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ptb_tui.run.erasing import erase

BYTES = 256 << 20
FILES = 20_000
DEPTH = 8
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class Room:
    """What may still be copied."""

    bytes: int = BYTES
    files: int = FILES


def bring(top: Path, name: str, target: Path, room: Room | None = None) -> bool:
    """Copy the file or folder `name`, a path below `top`, to `target`; False when there is no such thing.

    What does not fit or cannot be read stays out and is said on stdout. Every part of the path may have been replaced
    by a link, which is then no folder.
    """
    room = room or Room()
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        return False
    with contextlib.ExitStack() as stack:
        try:
            folder = os.open(top, _FOLDER)
            stack.callback(os.close, folder)
            for part in parts[:-1]:
                folder = os.open(part, _FOLDER, dir_fd=folder)
                stack.callback(os.close, folder)
            info = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        if stat.S_ISDIR(info.st_mode):
            return _tree(folder, parts[-1], target, room, DEPTH)
        return stat.S_ISREG(info.st_mode) and _file(folder, parts[-1], target, room)


def _file(folder: int, name: str, target: Path, room: Room) -> bool:
    try:
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as source:
            info = os.fstat(source.fileno())
            if not stat.S_ISREG(info.st_mode):
                return False
            if info.st_size > room.bytes or room.files <= 0:
                print(f"not kept, too large or too many: {target.name}", flush=True)
                return False
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb") as out:
                shutil.copyfileobj(source, out)
    except OSError as error:
        print(f"not kept: {target.name}: {error.strerror}", flush=True)
        return False
    room.bytes, room.files = room.bytes - info.st_size, room.files - 1
    return True


def _tree(folder: int, name: str, target: Path, room: Room, depth: int) -> bool:
    try:
        inner = os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        return False
    try:
        with os.scandir(inner) as found:
            entries = sorted(islice(found, room.files), key=lambda entry: entry.name)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if depth > 0:
                    _tree(inner, entry.name, target / entry.name, room, depth - 1)
            elif entry.is_file(follow_symlinks=False):
                _file(inner, entry.name, target / entry.name, room)
    except OSError as error:
        print(f"not kept: {target.name}: {error.strerror}", flush=True)
    finally:
        os.close(inner)
    return True


def keep_inspect_logs(home: Path, target: Path) -> None:
    """Keep inspect's own logs of a measured seed, `task/logs` of the home, in place of those of an attempt that was cut
    off."""
    erase(target)
    bring(home, "task/logs", target, Room(files=1000))
