"""Bounded reads of regular files: whatever else lies there, links and folders included, is as good as absent."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any


def open_regular(path: Path) -> int:
    """A descriptor of a regular file that the caller closes, or -1."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):  # ValueError: a zero byte in the name
        return -1
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return -1


def read_regular(path: Path, limit: int) -> bytes | None:
    """The whole of a regular file of at most `limit` bytes, else None."""
    if (fd := open_regular(path)) < 0:
        return None
    try:
        with os.fdopen(fd, "rb") as file:
            data = file.read(limit + 1) if os.fstat(fd).st_size <= limit else None
    except OSError:
        return None
    return data if data is not None and len(data) <= limit else None


def read_record(path: Path, limit: int = 1 << 20) -> dict[str, Any] | None:
    """The JSON object that a regular file holds, else None."""
    try:
        value = json.loads(read_regular(path, limit) or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def head_bytes(path: Path, limit: int) -> bytes:
    """At most the first `limit` bytes of a regular file; empty when there is none."""
    return _part(path, limit, 0)


def tail_bytes(path: Path, limit: int) -> bytes:
    """At most the last `limit` bytes of a regular file; empty when there is none."""
    return _part(path, limit, None)


def _part(path: Path, limit: int, offset: int | None) -> bytes:
    if (fd := open_regular(path)) < 0:
        return b""
    try:
        return os.pread(fd, limit, max(0, os.fstat(fd).st_size - limit) if offset is None else offset)
    except OSError:
        return b""
    finally:
        os.close(fd)


def last_object(path: Path, limit: int = 1 << 16) -> dict[str, Any] | None:
    """The last line that is a JSON object; a torn last line is passed over."""
    for line in reversed(tail_bytes(path, limit).split(b"\n")):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None
