"""A rebuildable index of settled runs, so that a thousand are listed without reading a thousand folders.

`_ptb/cache/runs.json` where the root is ours, else `$XDG_CACHE_HOME/ptb-tui/<root digest>/runs.json`. An entry is good
as long as what the run's worth was read from has the same time stamps and sizes; it may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from ptb_tui.core import files
from ptb_tui.core.layout import Root
from ptb_tui.results.records import Assessment, RunRecord, StepRecord
from ptb_tui.results.regular import read_regular

FORMAT = 1
_LIMIT = 256 << 20
QUIET_S = 2.0  # a change within the granularity of time stamps could go unseen

Stamp = tuple[str, int, int]  # name below the root, time of last change in ns (0: absent), bytes

_PLAIN = (
    "id", "method", "run_name", "benchmark", "model", "origin", "place", "relative", "agent", "protocol",
    "fingerprint", "created", "started", "sweep", "sweep_name", "spec_text", "verdicts_text", "values", "problems",
)  # fmt: skip


def stamps(root: Path, names: Iterable[str]) -> list[Stamp]:
    """Stamps of files and folders below the root; the folder of a run may be a link."""
    found: list[Stamp] = []
    for name in names:
        try:
            info = os.stat(f"{root}/{name}")
        except (OSError, ValueError):
            found.append((name, 0, 0))
        else:
            found.append((name, info.st_mtime_ns, info.st_size))
    return found


def quiet(found: Sequence[Stamp], now: float) -> bool:
    """Whether all changes lie long enough in the past (and none in the future) to be told from the next one."""
    newest = max((when for _, when, _ in found), default=0)
    return newest / 1e9 < now - QUIET_S


def unchanged(base: str, found: Sequence[Sequence[Any]]) -> bool:
    """Whether everything below `base`, which ends with a slash, still has its stamp."""
    stat = os.stat
    for name, when, size in found:
        try:
            info = stat(base + name)
        except (OSError, ValueError):
            if when:
                return False
            continue
        if info.st_mtime_ns != when or info.st_size != size:
            return False
    return True


def pack(record: RunRecord) -> list[Any]:
    """The plain form of a record."""
    return [
        *(getattr(record, name) for name in _PLAIN),
        [step.to_json() for step in record.steps],
        list(record.assessment),
    ]


def unpack(root: Path, values: Sequence[Any]) -> RunRecord:
    """Read the plain form. ValueError, TypeError or KeyError when it is not one."""
    *plain, steps, assessment = values
    fields = dict(zip(_PLAIN, plain, strict=True))
    worth, policy, letters, reason, evidence = assessment
    fields["problems"] = tuple(fields["problems"])
    return RunRecord(
        **fields,
        root=root,
        steps=tuple(StepRecord.from_json(step) for step in steps),
        assessment=Assessment(worth, policy, letters, reason, tuple(evidence)),
    )


def _code() -> str:
    """Changes whenever the code that reads runs changes: words and rules must not outlive it."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for folder in (here, here.parent / "core", here.parent / "judging"):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.endswith((".py", ".toml")):
                    info = entry.stat()
                    digest.update(f"{entry.name} {info.st_mtime_ns} {info.st_size}\n".encode())
    return digest.hexdigest()[:16]


class Index:
    """Entries by path below the root: the stamps, and the plain form or the record once it was made."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._key = f"{FORMAT} {_code()}"
        self._entries: dict[str, tuple[Sequence[Any], Any]] = {}
        self._loaded = self._changed = False

    @property
    def path(self) -> Path:
        """Where the index is kept for this root and this user."""
        if os.access(self._root.ptb, os.W_OK | os.X_OK):
            return self._root.own("cache") / "runs.json"
        digest = hashlib.sha256(os.fsencode(self._root.path.resolve())).hexdigest()[:16]
        base = os.environ.get("XDG_CACHE_HOME", "")
        folder = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.cache"))
        return folder / "ptb-tui" / digest / "runs.json"

    def _load(self) -> None:
        self._loaded = True
        data = read_regular(self.path, _LIMIT)
        if data is None:
            return
        try:
            body = from_json(data)
            if body["key"] == self._key:
                self._entries = {str(name): (entry[0], entry[1]) for name, entry in body["runs"].items()}
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            self._entries = {}

    def get(self, relative: str) -> RunRecord | None:
        """The record of a run when nothing changed since it was read."""
        if not self._loaded:
            self._load()
        entry = self._entries.get(relative)
        if entry is None:
            return None
        found, kept = entry
        try:
            if unchanged(f"{self._root.path}/", found):
                if isinstance(kept, RunRecord):
                    return kept
                record = unpack(self._root.path, kept)
                self._entries[relative] = (found, record)
                return record
        except (ValueError, TypeError, KeyError, AttributeError):
            pass  # a damaged entry is read again
        self.drop(relative)
        return None

    def put(self, relative: str, found: Sequence[Stamp], record: RunRecord) -> None:
        """Remember a settled run."""
        self._entries[relative] = (found, record)
        self._changed = True

    def drop(self, relative: str) -> None:
        """Forget a run."""
        self._changed = self._entries.pop(relative, None) is not None or self._changed

    def keep_only(self, relatives: set[str]) -> None:
        """Forget runs that are gone."""
        for name in [name for name in self._entries if name not in relatives]:
            self.drop(name)

    def save(self) -> None:
        """Write the index when it changed; a root or cache that cannot be written costs speed alone."""
        if not self._changed:
            return
        self._changed = False
        runs = {
            name: [found, pack(kept) if isinstance(kept, RunRecord) else kept]
            for name, (found, kept) in self._entries.items()
        }
        with contextlib.suppress(OSError, ValueError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            files.replace(self.path, to_json({"key": self._key, "runs": runs}))
