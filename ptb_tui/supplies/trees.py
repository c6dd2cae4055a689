"""Folders that never change once they are made: sealed, named by their digest, and removed whole. Effects."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from ptb_tui.core.errors import PtbError


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a tree holds. `digest` is over names, kinds, the executable bit, contents and targets of links."""

    digest: str
    files: int
    bytes: int


def make_links_relative(root: Path) -> None:
    """Rewrite links to places inside the tree so that it may be moved. PtbError for one that leads out of it."""
    root = Path(os.path.realpath(root))
    for base, folders, names in os.walk(root):
        for name in (*folders, *names):
            link = Path(base) / name
            if not link.is_symlink():
                continue
            target = os.readlink(link)
            place = os.path.normpath(target if os.path.isabs(target) else os.path.join(base, target))
            if place != str(root) and not place.startswith(f"{root}{os.sep}"):
                raise PtbError(f"{link.relative_to(root)} is a link to {target}, outside of what was installed")
            if os.path.isabs(target):
                link.unlink()
                link.symlink_to(os.path.relpath(place, base))


def seal(root: Path) -> Sealed:
    """Take away the right to write from all but the top folder, and return what is in it. PtbError for odd files."""
    digest, count, sizes = hashlib.sha256(), 0, dict[int, int]()  # by inode: packages hold hard links
    entries = []
    for base, folders, names in os.walk(root):
        entries += [os.path.join(base, name) for name in (*folders, *names)]
    for path in sorted(entries, key=os.fsencode):
        info = os.lstat(path)
        words = [os.path.relpath(path, root)]
        if stat.S_ISLNK(info.st_mode):
            words += ["link", os.readlink(path)]
        elif stat.S_ISDIR(info.st_mode):
            words += ["folder"]
            os.chmod(path, 0o555)
        elif stat.S_ISREG(info.st_mode):
            runs = bool(info.st_mode & 0o111)
            with open(path, "rb") as file:
                words += ["program" if runs else "file", hashlib.file_digest(file, "sha256").hexdigest()]
            os.chmod(path, 0o555 if runs else 0o444)
            count += 1
            sizes[info.st_ino] = info.st_size
        else:
            raise PtbError(f"{path} is neither a file nor a folder nor a link")
        digest.update(b"\0".join(os.fsencode(word) for word in words) + b"\n")
    return Sealed(digest.hexdigest(), count, sum(sizes.values()))


def place(tree: Path, target: Path) -> bool:
    """Move a sealed tree to its place, or drop it when another was faster; both are the same. OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(tree, target)  # the top folder can still be written, or only root could move it
    except OSError:
        if not target.is_dir():
            raise
        remove(tree)
        return False
    os.chmod(target, 0o555)
    return True


def same_file(source: Path, target: Path) -> None:
    """The file under a second name, without a second copy where the file system can."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def remove(tree: Path) -> None:
    """Remove a tree, read-only folders included; what cannot be removed stays."""
    for base, _, _ in os.walk(tree):
        with contextlib.suppress(OSError):
            os.chmod(base, 0o700)
    shutil.rmtree(tree, ignore_errors=True)
