"""Read all runs of a results root: ours, queued ones, and those that others made (design §5). Never raises for content.

`scan`, `find`, `row` and `detail` are what the rest of the program uses; `RunStore` keeps what it read between scans.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ptb_tui.core import names
from ptb_tui.core.errors import NotFound, UsageError
from ptb_tui.core.layout import Root
from ptb_tui.core.text import sanitize
from ptb_tui.results.index import Index, quiet, stamps
from ptb_tui.results.overlay import Overlay
from ptb_tui.results.records import Place, RunRecord
from ptb_tui.results.views import detail, row, row_values

if TYPE_CHECKING:
    from ptb_tui.core.verdict import JudgeSpec

__all__ = ["RunStore", "Scan", "detail", "find", "row", "row_values", "scan"]

_LOOKS = 5  # at a root in which runs move
_SKIPPED = ("baseline", "baseline_zeroshot")  # the original keeps its reference scores there (E §5.2)


@dataclass(frozen=True, slots=True)
class Scan:
    """All runs, newest first, and what could not be understood, in words."""

    runs: tuple[RunRecord, ...] = ()
    problems: tuple[str, ...] = ()


class _Found(NamedTuple):
    """One folder that is a run, before it is read."""

    relative: str
    method: str
    name: str
    place: Place
    parsed: names.RunName | None = None  # of a run directory


def _words(name: str) -> str:
    return sanitize(os.fsencode(name), limit=120, newlines=False)


def _clean(name: str) -> bool:
    return name.isprintable()  # false for undecodable bytes too


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Reading many runs makes many objects and no cycles: looking for those would take a quarter of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class RunStore:
    """The runs of one root. Cheap to ask again: what has settled is read once.

    `known_agents` are the agent folders, for splitting method names. `judges` are the judge folders by name; without
    them the four of the original are known, others are read from their own records. `overlay`: of the results root
    beside which this one is only read; by default its own.
    """

    def __init__(
        self,
        root: Root,
        known_agents: Iterable[str] = (),
        *,
        judges: Mapping[str, JudgeSpec] | None = None,
        use_cache: bool = True,
        overlay: Overlay | None = None,
    ) -> None:
        self._root = root
        self._overlay = overlay or Overlay(root)
        self._agents = tuple(known_agents)
        self._judges = judges
        self._index = Index(root) if use_cache else None
        self._methods: dict[str, str] = {}
        self._problems: list[str] = []
        self._overlaid: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self.scanned = ""  # `state` as the last scan found it

    def scan(self) -> Scan:
        """Read the root. An absent root has no runs. Safe from several threads, one after the other."""
        with self._lock, without_collection():
            return self._scan()

    def state(self) -> str:
        """What stays the same as long as a scan would find the same: every run is settled, kept and unchanged. Empty
        when that cannot be said. Costs a look at the stamps alone."""
        with self._lock:
            if self._index is None or not self._index.size or self._names("_ptb/queue"):
                return ""
            before, self._problems = self._problems, []
            self._overlaid = self._laid_over()
            count = 0
            for item in itertools.chain(self._directories(set()), self._below_ptb("never_started")):
                if not self._index.holds(item.relative, item.relative not in self._overlaid):
                    return ""
                count += 1
            problems, self._problems = self._problems, before
            kept = self._index.state()
            return f"{kept} {count} {problems}" if kept else ""

    def _scan(self) -> Scan:
        for _ in range(_LOOKS):
            self._problems = []
            found, missed = self._gather()
            if not missed:
                break
        if self._index is not None:
            self._index.keep_only(found)
            self._index.save()
            whole = self._index.size == len(found) and not self._names("_ptb/queue")
            kept = self._index.state() if whole else ""
            self.scanned = f"{kept} {len(found)} {self._problems}" if kept else ""
        runs = sorted(found.values(), key=lambda record: (record.created or record.started, record.id), reverse=True)
        for record in runs:
            if record.problems:
                self._problems += [f"{record.relative}: {words}" for words in record.problems]
        return Scan(tuple(runs), tuple(self._problems))

    def _gather(self) -> tuple[dict[str, RunRecord], bool]:
        """Runs by path, and whether one of them moved from the queue while we looked and was not seen anywhere.

        A queued run becomes a run directory, or one that never started, by one rename: the queue is read first, and
        what it became wins.
        """
        now = time.time()
        self._overlaid = self._laid_over()
        observed = {name.partition(".")[0] for name in self._names("_ptb/observed")}
        found: dict[str, RunRecord] = {}
        ids: set[int] = set()
        queue = list(self._below_ptb("queue"))
        items = [*self._directories({int(item.name) for item in queue}), *self._below_ptb("never_started")]
        for item in items:
            record = self._record(item, observed, now)
            if record is not None:
                found[item.relative] = record
                if not record.foreign:
                    ids.add(record.id)
        missed = False
        for item in queue:
            if int(item.name) not in ids:
                record = self._record(item, observed, now)
                if record is not None:
                    found[item.relative] = record
                missed |= not os.path.isdir(self._root.path / item.relative)
        return found, missed

    def _names(self, relative: str) -> list[str]:
        try:
            return os.listdir(self._root.path / relative)
        except OSError:
            return []

    def _laid_over(self) -> frozenset[str]:
        """Runs of this root that something lies over, by path below the root."""
        above = self._overlay.home.own("overlay")
        found = set()
        try:
            for method in os.listdir(above):
                found |= {f"{method}/{name}" for name in os.listdir(above / method)}
        except OSError:
            pass  # an overlay that cannot be listed is noticed where it is read
        return frozenset(found)

    def _below_ptb(self, place: Place) -> Iterator[_Found]:
        for name in self._names(f"_ptb/{place}"):
            if name.isascii() and name.isdigit() and len(name) <= 18:
                yield _Found(f"_ptb/{place}/{name}", "", name, place)

    def _folders(self, path: Path) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(path) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.name[:1] in ("_", "."):
                        continue
                    try:
                        is_folder = entry.is_dir()
                    except OSError as error:  # a link in a circle
                        self._problems.append(f"{_words(entry.name)}: cannot be read: {error.strerror}")
                        continue
                    if not is_folder:
                        if entry.is_symlink():
                            self._problems.append(f"{_words(entry.name)}: a link that leads to no folder")
                    elif _clean(entry.name):
                        yield entry
                    else:
                        self._problems.append(f"{_words(entry.name)}: a folder whose name cannot be printed, left out")
        except FileNotFoundError:
            return
        except OSError as error:
            self._problems.append(f"{_words(path.name)}: cannot be read: {error.strerror}")

    def _directories(self, queued: set[int]) -> Iterator[_Found]:
        for method in self._folders(self._root.path):
            if method.name in _SKIPPED:
                continue
            for entry in self._folders(Path(method.path)):
                parsed = names.parse_run(entry.name)
                relative = f"{method.name}/{entry.name}"
                if parsed is None:
                    self._problems.append(f"{_words(relative)}: not the name of a run, left out")
                elif parsed.run_id not in queued or os.path.isdir(f"{entry.path}/.ptb"):  # else about to become ours
                    yield _Found(relative, method.name, entry.name, "run", parsed)

    def _record(self, item: _Found, observed: set[str], now: float) -> RunRecord | None:
        bare = item.relative not in self._overlaid
        if self._index is not None and (kept := self._index.get(item.relative, bare)) is not None:
            return kept
        if bare and item.parsed is not None and self._judges is None:
            from ptb_tui.results.quick import read_quick

            quick = read_quick(
                self._root.path, item.relative, item.method, item.name, item.parsed, self._agent(item.method)
            )
            if quick is not None:
                if self._index is not None and quiet(quick[1], now):
                    self._index.put(item.relative, quick[1], quick[0], bare=True)
                return quick[0]
        from ptb_tui.results.reading import read_run, stamp_names  # what has settled is listed without pydantic

        ours = item.place != "run" or os.path.isdir(self._root.path / item.relative / ".ptb")
        names_ = stamp_names(self._root, item.relative, item.place, ours, self._overlay)
        before = stamps(self._root.path, item.relative, names_)
        seen = item.name.rpartition("_")[2] in observed
        try:
            record = read_run(self._root, item.relative, item.place, ours, seen, self._judges, overlay=self._overlay)
        except OSError as error:  # a file system that fails under us must not hide the other runs
            self._problems.append(f"{item.relative}: cannot be read: {error.strerror}")
            return None
        if record is None:
            return None
        record = replace(record, agent=self._agent(record.method))
        settled = all(step.settled for step in record.steps) and item.place != "queue"
        if record.foreign:
            settled = bool(record.values.get("agent_done"))
        if self._index is not None and settled and quiet(before, now):
            self._index.put(item.relative, before, record)
        return record

    def _agent(self, method: str) -> str:
        if method not in self._methods:
            parsed = names.parse_method(method, self._agents)
            self._methods[method] = parsed.agent if parsed else ""
        return self._methods[method]


def scan(root: Root, known_agents: Iterable[str] = (), *, use_cache: bool = True) -> list[RunRecord]:
    """All runs of a root, newest first. Problems of single runs are in the records; `RunStore.scan` has all."""
    return list(RunStore(root, known_agents, use_cache=use_cache).scan().runs)


def _by_path(root: Root, text: str, records: Iterable[RunRecord]) -> list[RunRecord]:
    wanted = Path(text)
    choices = [wanted] if wanted.is_absolute() else [root.path / wanted, Path.cwd() / wanted]
    real = {os.path.realpath(choice) for choice in choices}
    return [record for record in records if record.relative == text or os.path.realpath(record.path) in real]


def find(root: Root, text: str, records: Iterable[RunRecord] | None = None) -> RunRecord:
    """The run that a person means: an id, a unique prefix of one, or a path, absolute or below the root.

    NotFound when there is none; UsageError that lists the candidates when there are several.
    """
    runs = list(records) if records is not None else scan(root)
    word = text.strip()
    found: list[RunRecord] = []
    if not word or "\0" in word:
        pass
    elif "/" in word or not word.isdigit():
        found = _by_path(root, word, runs) or [record for record in runs if record.run_name == word]
    else:
        found = [record for record in runs if str(record.id) == word]
        found = found or [record for record in runs if str(record.id).startswith(word)]
    if len(found) == 1:
        return found[0]
    shown = sanitize(word, limit=120, newlines=False)
    if not found:
        raise NotFound(f"no run {shown!r} below {root.path}", hint="`ptb-tui runs` lists the runs")
    listed = ", ".join(f"{record.id} ({record.relative})" for record in found[:10])
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    raise UsageError(f"{shown!r} means several runs: {listed}{more}", hint="give more of the id, or the path")
