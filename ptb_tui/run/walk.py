"""What a folder that an agent fills holds on disk: `python -I walk.py FOLDER ENTRIES` prints bytes, and whole or over.

A program of its own, so that a walk of minutes holds nobody up, and so that nothing is left of it when it is ended.
The tree changes while it is read and whoever changes it is hostile: folders are entered by descriptor, no link is
followed, and a folder that its owner closed is opened again. Only one file system counts. The walk stops, over, after
ENTRIES entries or where it is deeper than descriptors reach. Standard library alone, and nothing of ours.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
import sys

_DEEP = 10_000
_SPARE = 32  # descriptors beside those of the levels
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = stat.S_IRUSR | stat.S_IXUSR


class _Over(Exception):
    """There is more than is walked through."""


class Walk:
    """One walk. `bytes` counts blocks; a file with several names counts by equal parts at each."""

    def __init__(self, entries: int) -> None:
        self.bytes = 0
        self._left = entries
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self._deep = _DEEP if hard == resource.RLIM_INFINITY else min(_DEEP, hard - _SPARE)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._deep + _SPARE, hard))

    def run(self, folder: str) -> bool:
        """Whether all of it was counted. OSError when the folder itself cannot be read."""
        top = os.open(folder, _FLAGS)
        self._device = os.fstat(top).st_dev
        self.bytes += os.fstat(top).st_blocks * 512
        levels = []
        try:
            levels.append((top, self._list(top)))
            while levels:
                fd, names = levels[-1]
                if not names:
                    os.close(levels.pop()[0])
                    continue
                if (child := self._enter(fd, names.pop())) < 0:
                    continue
                levels.append((child, []))
                if len(levels) > self._deep:
                    return False
                levels[-1] = (child, self._list(child))
        except _Over:
            return False
        finally:
            for fd, _ in levels:
                os.close(fd)
        return True

    def _enter(self, above: int, name: str) -> int:
        """The folder's descriptor, -1 when it is gone or cannot be read."""
        for _ in range(2):
            try:
                fd = os.open(name, _FLAGS, dir_fd=above)
            except PermissionError:
                with contextlib.suppress(OSError):
                    _open_up(name, above)
                continue
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise _Over from error
                return -1
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            if mode & _OPEN != _OPEN:
                with contextlib.suppress(OSError):
                    os.fchmod(fd, mode | _OPEN)
            return fd
        return -1

    def _list(self, fd: int) -> list[str]:
        """Count the entries of a folder; the names of the folders in it."""
        folders = []
        with contextlib.suppress(OSError), os.scandir(fd) as found:
            for entry in found:
                self._left -= 1
                if self._left < 0:
                    raise _Over
                try:
                    info = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if not stat.S_ISDIR(info.st_mode):
                    self.bytes += info.st_blocks * 512 // max(1, info.st_nlink)
                elif info.st_dev == self._device:
                    self.bytes += info.st_blocks * 512
                    folders.append(entry.name)
        return folders


def _open_up(name: str, above: int) -> None:
    """Give the owner back the rights to a folder; only a descriptor leads there, so that nothing else can be meant."""
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(os.fstat(fd).st_mode) | _OPEN)
    finally:
        os.close(fd)


def main() -> int:
    """Exit 1 when the folder cannot be read."""
    walk = Walk(int(sys.argv[2]))
    with contextlib.suppress(OSError):
        os.nice(10)
    try:
        whole = walk.run(sys.argv[1])
    except OSError as error:
        print(f"{sys.argv[1]}: {error.strerror}", file=sys.stderr)
        return 1
    print(walk.bytes, "whole" if whole else "over")
    return 0


if __name__ == "__main__":
    sys.exit(main())
