"""Removing a folder that an agent wrote, whatever its depth and rights. Standard library alone."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def erase(folder: Path) -> bool:
    """Remove a hostile tree of any depth, links not followed, rights restored; False when something resists.

    Deep folders are moved up beside the top before they are entered, so that no path grows too long.
    """
    if not os.path.lexists(folder):
        return True
    if not stat.S_ISDIR(folder.lstat().st_mode):
        folder.unlink()
        return True
    top, moved = str(folder), 0
    todo = [(top, 0)]
    order: list[str] = []
    while todo:
        path, depth = todo.pop()
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)
            with os.scandir(path) as found:
                for entry in found:
                    with contextlib.suppress(OSError):
                        if not entry.is_dir(follow_symlinks=False):
                            os.unlink(entry.path)
                        elif depth < 20:
                            todo.append((entry.path, depth + 1))
                        else:
                            moved += 1
                            os.chmod(entry.path, 0o700)
                            lifted = f"{top}/.lifted-{os.getpid()}-{moved}"
                            os.rename(entry.path, lifted)
                            todo.append((lifted, 1))
        order.append(path)
    for path in reversed(order):
        with contextlib.suppress(OSError):
            os.rmdir(path)
    return not os.path.lexists(folder)
