"""Files that are complete or absent: atomic replace, exclusive create, bounded reads (local_queue C.8).

Rules that also hold on NFS: no flock, no shared append; write, fsync, close, then rename or link. Standard library
alone.
"""

from __future__ import annotations

import json
import os
import stat
import uuid
from pathlib import Path
from typing import Any

from ptb_tui.core.errors import StorageError

MAX_JSON = 8 << 20  # bytes; nothing of ours comes near it


def _temporary(path: Path, data: bytes, mode: int, durable: bool = True) -> Path:
    temporary = path.with_name(f".{path.name[:80]}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def replace(path: Path, data: bytes | str, *, mode: int = 0o644, durable: bool = True) -> None:
    """Write a file atomically: readers see the old or the new content, never a part. OSError when it cannot be had.

    Without `durable` a crash of the machine may leave it empty: for what can be made anew.
    """
    raw = data.encode() if isinstance(data, str) else data
    temporary = _temporary(path, raw, mode, durable)
    try:
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def create(path: Path, data: bytes | str, *, mode: int = 0o644) -> bool:
    """Create a file with its content, or return False because it exists. Exactly one of many callers gets True."""
    raw = data.encode() if isinstance(data, str) else data
    temporary = _temporary(path, raw, mode)
    try:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return os.stat(temporary).st_nlink == 2  # the reply to our own link may have been lost
        return True
    finally:
        temporary.unlink(missing_ok=True)


def dump(value: object) -> str:
    """The one JSON form of our files: compact, UTF-8, keys in order of insertion, newline at the end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def read_bytes(path: Path, limit: int = MAX_JSON) -> bytes | None:
    """At most `limit` bytes of a regular file; None when it is absent, larger, not a regular file or a link."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > limit:
            return None
        parts: list[bytes] = []
        left = limit + 1
        while left > 0 and (part := os.read(fd, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts) if left > 0 else None
    except OSError:
        return None
    finally:
        os.close(fd)


def read_json(path: Path, limit: int = MAX_JSON) -> Any:
    """Parsed content of a regular file, or None when it is absent, too large or not JSON."""
    data = read_bytes(path, limit)
    if data is None:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def read_object(path: Path, limit: int = MAX_JSON) -> dict[str, Any] | None:
    """Like `read_json`, but None unless it is a JSON object."""
    value = read_json(path, limit)
    return value if isinstance(value, dict) else None


def ensure_writable(folder: Path, purpose: str, option: str = "POST_TRAIN_BENCH_RESULTS_DIR") -> None:
    """Make the folder if needed and prove that it can be written. StorageError names folder, purpose and what chooses
    another: an `option` of the command, or the setting."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = _temporary(folder / "probe", b"", 0o600)
        probe.unlink()
    except OSError as error:
        raise StorageError(
            f"{purpose} {folder} cannot be written: {error.strerror}",
            hint=f"choose another folder with {option}, or repair its rights and free space",
        ) from error
