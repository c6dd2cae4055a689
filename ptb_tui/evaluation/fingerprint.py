"""Identity of a model: a digest over its files, so that a score says what it was measured on (case A05)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

_CHUNK = 1 << 20
MAX_FILES = 20_000  # of one model; real ones have some dozens


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a model: path below its folder as shown text, bytes, sha256 as hex."""

    path: str
    size: int
    sha256: str

    def to_json(self) -> dict[str, str | int]:
        """Plain form for the manifest."""
        return asdict(self)


def shown(path: str) -> str:
    """A path as valid text; bytes that are not UTF-8 become `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def digest(entries: Iterable[FileEntry]) -> str:
    """sha256 over the sorted path, size and sha256 of all files, as hex; can be computed again from a manifest."""
    whole = hashlib.sha256()
    for entry in sorted(entries, key=lambda entry: (entry.path, entry.sha256)):
        whole.update(f"{entry.path}\0{entry.size}\0{entry.sha256}\n".encode())
    return whole.hexdigest()


def file_sha256(path: Path) -> str:
    """sha256 of one regular file. OSError when it cannot be read or is a link."""
    sha = hashlib.sha256()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        while block := file.read(_CHUNK):
            sha.update(block)
    return sha.hexdigest()


def of_folder(folder: Path) -> tuple[str, tuple[FileEntry, ...]]:
    """Digest and files of a model folder that we copied; links and special files in it are not read. OSError."""
    entries: list[FileEntry] = []
    todo = [""]
    while todo:
        below = todo.pop()
        with os.scandir(folder / below) as found:
            for entry in found:
                path = os.path.join(below, entry.name)
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    todo.append(path)
                elif stat.S_ISREG(info.st_mode) and len(entries) < MAX_FILES:
                    entries.append(FileEntry(shown(path), info.st_size, file_sha256(folder / path)))
    ordered = tuple(sorted(entries, key=lambda entry: entry.path))
    return digest(ordered), ordered
