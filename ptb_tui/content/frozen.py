"""What of a content folder is content: what goes into a run's frozen copy, and what a fingerprint is over.

Files that may hold secrets are left out by name and by mode, build products and hidden files by name.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator
from pathlib import Path

REFUSED = (
    "*auth*.json",
    "oauth_token*",
    ".env*",
    "*.pem",
    "id_*",
    "*.key",
    "*.before",
    "*.rescued",
)
SKIPPED = ("__pycache__", ".*", "*.pyc", "node_modules")
MAX_FILE = 64 << 20


def _skipped(name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in SKIPPED)


def _named_as_secret(path: Path) -> bool:
    if any(fnmatch.fnmatch(path.name, pattern) for pattern in REFUSED):
        return True
    return path.name.startswith("credentials") and path.suffix != ".py"  # modules of ours are called after what they do


def _private(path: Path) -> bool:
    return stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 and path.suffix in (".json", ".toml", ".txt", "")


def refused(path: Path) -> bool:
    """Whether a file may hold a secret and must never be copied."""
    return _named_as_secret(path) or _private(path)


def private(folder: Path) -> list[Path]:
    """Files that are left out only because nobody else may read them; a strict umask makes all files so."""
    return [path for path in walk(folder) if _private(path) and not _named_as_secret(path)]


def large(folder: Path) -> list[Path]:
    """Files that are left out because of their size."""
    return [path for path in walk(folder) if path.stat().st_size > MAX_FILE]


def walk(folder: Path) -> Iterator[Path]:
    """The files below a folder in order, without hidden ones and build products."""
    for base, names, leaves in os.walk(folder):
        names[:] = sorted(name for name in names if not _skipped(name))
        for leaf in sorted(leaves):
            path = Path(base) / leaf
            if not _skipped(leaf) and path.is_file():
                yield path


def kept(path: Path) -> bool:
    """Whether a file that `walk` found goes into a frozen copy."""
    return not refused(path) and path.stat().st_size <= MAX_FILE
