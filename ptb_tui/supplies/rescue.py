"""What a vendor gives is not lost: the room for it is taken before the vendor is asked, and when it cannot be put in
its place it waits beside the locks as `<key>.rescued`. Used under the login's lock. Standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self

from ptb_tui.core import clock, files
from ptb_tui.supplies.logins import MAX_LOGIN, Login, mark, read_login


class Room:
    """A private file beside a login, on the disk and as large as a login may be, which becomes the login."""

    def __init__(self, login: Path) -> None:
        """Take the room. OSError when the folder, its disk or a quota has none."""
        self._login, self.left = login, False
        self.path = login.with_name(f".{login.name[:80]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(fd, "wb", buffering=0)
        try:
            self._write(os.urandom(MAX_LOGIN))  # nothing that a file system could store as less
        except OSError:
            self.__exit__(None, None, None)
            raise

    def _write(self, data: bytes) -> None:
        self._file.seek(0)
        while data:
            data = data[self._file.write(data) :]
        self._file.truncate()
        os.fsync(self._file.fileno())

    def become(self, data: bytes) -> None:
        """Put `data` in the login's place. OSError when that is refused."""
        self._write(data)
        os.replace(self.path, self._login)

    def leave(self) -> None:
        """Keep the file whatever comes: it holds the only copy."""
        self.left = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        if not self.left:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)


def _place(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.rescued")


def keep(stem: Path, old: Login, data: bytes) -> Path:
    """Keep the login file that comes after `old` until it can be put in its place; returns where. OSError."""
    note = {"v": 1, "t": clock.utc_text(), "token": mark(old.refresh), "login": data.decode("utf-8", "replace")}
    stem.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.replace(_place(stem), files.dump(note), mode=0o600)
    return _place(stem)


def rescued(stem: Path, old: Login | None) -> Login | None:
    """What was kept to come after exactly this login; None when nothing was, or somebody signed in since."""
    note = files.read_object(_place(stem), 4 * MAX_LOGIN)
    if note is None or old is None or not old.refresh or note.get("token") != mark(old.refresh):
        return None
    return read_login(str(note.get("login") or "").encode("utf-8", "replace"))


def drop(stem: Path) -> None:
    """What was kept is in its place, or of no more use."""
    with contextlib.suppress(OSError):
        _place(stem).unlink(missing_ok=True)
