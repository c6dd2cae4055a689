"""A rebuildable index of settled runs, so that a thousand are listed without reading a thousand folders.

`_ptb/cache/runs.json` where the root is ours, else `$XDG_CACHE_HOME/ptb-tui/<root digest>/runs.json`. An entry is good
as long as what the run's worth was read from has the same time stamps and sizes; it may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from ptb_tui.core import files
from ptb_tui.core.layout import Root
from ptb_tui.results.records import Assessment, RunRecord, StepRecord
from ptb_tui.results.regular import read_regular

FORMAT = 4
_LIMIT = 256 << 20
QUIET_S = 2.0  # a change within the granularity of time stamps could go unseen

Stamp = tuple[
    str, int, int
]  # name in the run's folder ("" is itself) or absolute, time of last change in ns (0: absent), bytes

_PLAIN = (
    "id", "method", "run_name", "benchmark", "model", "origin", "place", "relative", "agent", "protocol",
    "fingerprint", "created", "started", "sweep", "sweep_name", "spec_text", "verdicts_text", "values", "problems",
)  # fmt: skip


_VALUES = _PLAIN.index("values")
_fields = attrgetter(*_PLAIN)


def stamps(root: Path, relative: str, names: Iterable[str]) -> list[Stamp]:
    """Stamps of files and folders of a run, named below the root or absolute; the folder of a run may be a link."""
    found: list[Stamp] = []
    for path in names:
        name = path[len(relative) + 1 :] if path[0] != "/" else path
        try:
            info = os.stat(path if path[0] == "/" else f"{root}/{path}")
        except (OSError, ValueError):
            found.append((name, 0, 0))
        else:
            found.append((name, info.st_mtime_ns, info.st_size))
    return found


def quiet(found: Sequence[Stamp], now: float) -> bool:
    """Whether all changes lie long enough in the past (and none in the future) to be told from the next one."""
    newest = max([when for _, when, _ in found], default=0)
    return newest / 1e9 < now - QUIET_S


def unchanged(base: str, found: Sequence[Sequence[Any]]) -> bool:
    """Whether everything in the run's folder `base`, which ends with a slash, still has its stamp."""
    stat = os.stat
    for name, when, size in found:
        try:
            info = stat(name if name[:1] == "/" else base + name)
        except (OSError, ValueError):
            if when:
                return False
            continue
        if info.st_mtime_ns != when or info.st_size != size:
            return False
    return True


def pack(record: RunRecord, usual: Mapping[str, Any]) -> list[Any]:
    """The plain form of a record; of its values those that are not the `usual` ones, or a list of all."""
    fields = list(_fields(record))
    values = record.values
    if values.keys() == usual.keys():
        fields[_VALUES] = {name: value for name, value in values.items() if value != usual[name]}
    else:
        fields[_VALUES] = [values]
    return [*fields, [step.to_json() for step in record.steps], list(record.assessment)]


def unpack(root: Path, values: Sequence[Any], usual: Mapping[str, Any]) -> RunRecord:
    """Read the plain form. ValueError, TypeError, IndexError or KeyError when it is not one."""
    *plain, steps, assessment = values
    fields = dict(zip(_PLAIN, plain, strict=True))
    worth, policy, letters, reason, evidence = assessment
    kept = fields["values"]
    fields["values"] = {**usual, **kept} if isinstance(kept, dict) else dict(kept[0])
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


def cache_folder(root: Root) -> Path:
    """Where what can be made anew is kept for this root and this user."""
    if os.access(root.ptb, os.W_OK | os.X_OK):
        return root.own("cache")
    digest = hashlib.sha256(os.fsencode(root.path.resolve())).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.cache"))
    return folder / "ptb-tui" / digest


class Index:
    """Entries by path below the root: the stamps, and the record or the line of the file that holds it.

    The file has a line for what is common and all stamps, then one for each record: whether all is as it was is told
    from the first alone, and a record that nobody asks for is written again as it was read.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._key = f"{FORMAT} {_code()}"
        self._entries: dict[str, tuple[Sequence[Sequence[Any]], RunRecord | bytes, bool]] = {}
        self._usual: Mapping[str, Any] = {}
        self._loaded = self._changed = False

    @property
    def path(self) -> Path:
        """Where the index is kept for this root and this user."""
        return cache_folder(self._root) / "runs.json"

    def _load(self) -> None:
        self._loaded = True
        data = read_regular(self.path, _LIMIT)
        if data is None:
            return
        first, *lines = data.split(b"\n")
        try:
            body = from_json(first)
            if body["key"] == self._key:
                self._usual = dict(body["usual"])
                pairs = zip(body["runs"].items(), lines, strict=True)
                self._entries = {name: (entry[0], line, entry[1]) for (name, entry), line in pairs}
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            self._entries = {}

    def get(self, relative: str, bare: bool = False) -> RunRecord | None:
        """The record of a run when nothing changed since it was read. `bare`: nothing lies over it now (`overlay`)."""
        if not self.holds(relative, bare):
            self.drop(relative)
            return None
        found, kept, alone = self._entries[relative]
        if isinstance(kept, RunRecord):
            return kept
        try:
            record = unpack(self._root.path, from_json(kept), self._usual)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            self.drop(relative)  # a damaged entry is read again
            return None
        self._entries[relative] = (found, record, alone)
        return record

    def holds(self, relative: str, bare: bool) -> bool:
        """Whether the run is kept and nothing changed since it was read; the record is not made."""
        if not self._loaded:
            self._load()
        entry = self._entries.get(relative)
        try:
            return (
                entry is not None and (bare or not entry[2]) and unchanged(f"{self._root.path}/{relative}/", entry[0])
            )
        except (ValueError, TypeError, IndexError):
            return False

    @property
    def size(self) -> int:
        """How many runs are kept."""
        if not self._loaded:
            self._load()
        return len(self._entries)

    def state(self) -> str:
        """What changes with every save; empty when there is none on disk."""
        try:
            info = os.stat(self.path)
        except OSError:
            return ""
        return f"{self._key} {info.st_mtime_ns} {info.st_size}"

    def put(self, relative: str, found: Sequence[Stamp], record: RunRecord, *, bare: bool = False) -> None:
        """Remember a settled run; `bare`: its stamps hold as long as nothing lies over it."""
        self._entries[relative] = (found, record, bare)
        self._changed = True

    def drop(self, relative: str) -> None:
        """Forget a run."""
        self._changed = self._entries.pop(relative, None) is not None or self._changed

    def keep_only(self, relatives: Container[str]) -> None:
        """Forget runs that are gone."""
        for name in [name for name in self._entries if name not in relatives]:
            self.drop(name)

    def save(self) -> None:
        """Write the index when it changed; a root or cache that cannot be written costs speed alone."""
        if not self._changed:
            return
        self._changed = False
        if not self._usual:
            first = next((kept for _, kept, _ in self._entries.values() if isinstance(kept, RunRecord)), None)
            self._usual = first.values if first is not None else {}
        usual = self._usual
        runs = {name: (found, bare) for name, (found, _, bare) in self._entries.items()}
        lines = [to_json({"key": self._key, "usual": usual, "runs": runs})]
        lines += [
            to_json(pack(kept, usual)) if isinstance(kept, RunRecord) else kept for _, kept, _ in self._entries.values()
        ]  # one after the other: the plain forms of all would take as much memory again
        with contextlib.suppress(OSError, ValueError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            files.replace(self.path, b"\n".join(lines), durable=False)
