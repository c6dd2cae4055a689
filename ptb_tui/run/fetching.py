"""Fetch the items of tasks into a site's data store: sources found, downloaded, compared, selected, written (E §1.3).

    <store>/<task>/items.jsonl  test_data.json  baseline_answers.jsonl  record.json
    <store>/data.lock.toml      revisions and hashes that must be met again
    <store>/.sources/           what was downloaded

A task is written when all of its sources were whole and as `data.toml` and the lock say: what was there before stays
until then. One task that fails keeps none of the others.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptb_tui.content.datafile import DataFile, Fetched, Generated
from ptb_tui.content.items import (
    RECORD,
    FileRecord,
    Record,
    SourceRecord,
    read_record,
    rules_digest,
    sha256_of,
)
from ptb_tui.content.tasks import Task
from ptb_tui.core import clock, files
from ptb_tui.core.errors import PtbError, StorageError
from ptb_tui.run.datasources import Folder, Found, Provider, combined
from ptb_tui.run.itemfiles import part_of, supply, write_items
from ptb_tui.supplies import claims
from ptb_tui.supplies.datalock import Lock, Pin, read_lock

SOURCES = ".sources"
CLAIM = "fetching.json"
SPARE = 256 << 20  # bytes that stay free


@dataclass(frozen=True, slots=True)
class Failure:
    """One task that was not fetched, why, and what to do."""

    task: str
    words: str
    remedy: str = ""


@dataclass(slots=True)
class Outcome:
    """How it went, task by task. `notes` are what a person still has to do."""

    there: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Fetch:
    """One fetch into a store. `say` gets a line, `tell` what is done of how many bytes."""

    store: Path
    provider: Provider
    say: Callable[[str], None]
    tell: Callable[[str, int, int], None]
    refresh: bool = False
    given: Path | None = None  # the folder of --from
    done: int = 0
    total: int = 0

    def run(self, tasks: Sequence[Task]) -> Outcome:
        """All of them. NotAllowed while another process fetches, StorageError when the store cannot be written,
        ConfigError when its lock is broken."""
        outcome = Outcome()
        try:
            self.store.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.store, error) from error
        with claims.claimed(self.store / CLAIM, f"the data store {self.store}"):
            lock = read_lock(self.store)
            for task in tasks:
                try:
                    lock = self._task(task, lock, outcome)
                except PtbError as error:
                    outcome.failed.append(Failure(task.name, error.message, error.hint))
                    hint = f"; {error.hint}" if error.hint else ""
                    self.say(f"{task.name}: not fetched: {error.message}{hint}")
                except OSError as error:
                    found = _unwritable(Path(str(error.filename or self.store)), error)
                    outcome.failed.append(Failure(task.name, found.message, found.hint))
                    self.say(f"{task.name}: not fetched: {found.message}")
        return outcome

    def _task(self, task: Task, lock: Lock, outcome: Outcome) -> Lock:
        """One task; the lock with what was met."""
        data = task.data
        if data is None:
            raise PtbError("it has no data.toml: nothing is fetched for it")
        if not self.refresh and is_whole(task, data, lock):
            outcome.there.append(task.name)
            self.say(f"{task.name}: is there")
        else:
            lock = self._fetched(task, data, lock)
            outcome.fetched.append(task.name)
        for source in data.generated:
            if (note := self._generated(task, source)) and note not in outcome.notes:
                outcome.notes.append(note)
                self.say(note)
        return lock

    def _fetched(self, task: Task, data: DataFile, lock: Lock) -> Lock:
        task.store.mkdir(parents=True, exist_ok=True)
        if self.given is not None and (done := self._finished(task, data, lock)) is not None:
            return done
        met, records, paths = lock.copy(), list[SourceRecord](), dict[int, list[Path]]()
        for number, source in enumerate(data.fetched):
            pin = lock.get(source.where_from, source.revision)
            self.tell(f"{task.name}: {source.where_from}", self.done, self.total)
            found = self.provider.find(task.name, source, None if self.refresh else pin)
            paths[number], shas = self._downloaded(task, found)
            _compare(source, found, shas, pin, self.refresh, lock.path)
            met.add(Pin(source.where_from, source.revision, found.revision, shas))
            records.append(
                SourceRecord(where=source.where_from, revision=found.revision, files=shas, sha256=combined(shas))
            )
        try:
            return self._written(task, data, records, paths, lock, met)
        finally:
            for name in data.made:
                part_of(task, name).unlink(missing_ok=True)

    def _written(
        self,
        task: Task,
        data: DataFile,
        records: list[SourceRecord],
        paths: dict[int, list[Path]],
        lock: Lock,
        met: Lock,
    ) -> Lock:
        """Make the files, put them in place, and record them; the lock with what was met."""
        order = {id(source): number for number, source in enumerate(data.fetched)}
        written = {}
        for name in data.made:
            feeding = [(source, paths[order[id(source)]]) for source in data.feeding(name)]
            written[name] = write_items(data, name, feeding, part_of(task, name))
        for name in data.made:
            os.replace(part_of(task, name), task.store / name)
        self._record(task, data, records, written)
        if met.pins != lock.pins:
            met.write()
        counts = ", ".join(f"{entry.count} in {name}" for name, entry in written.items())
        moved = "".join(_moved(lock, pin) for pin in met.pins.values())
        self.say(f"{task.name}: fetched, {counts}{moved}")
        return met

    def _record(self, task: Task, data: DataFile, sources: list[SourceRecord], made: dict[str, FileRecord]) -> None:
        before = read_record(task.store)
        kept = {name: entry for name, entry in (before.files if before else {}).items() if name not in data.made}
        record = Record(t=clock.utc_text(), rules=rules_digest(data), sources=tuple(sources), files={**kept, **made})
        files.replace(task.store / RECORD, files.dump(record.model_dump()))

    def _downloaded(self, task: Task, found: Found) -> tuple[list[Path], dict[str, str]]:
        free = shutil.disk_usage(self.store).free
        if found.size + SPARE > free:
            words = f"{self.store} has {free / 1e9:.1f} GB free, and {found.size / 1e9:.1f} GB are to be fetched"
            raise StorageError(words, hint="free space, or choose another folder with PTB_DATA_DIR")
        self.total += found.size
        paths, shas = [], {}
        for piece in found.pieces:

            def got(count: int, path: str = piece.path) -> None:
                self.done += count
                self.tell(f"{task.name}: {path}", self.done, max(self.done, self.total))

            paths.append(piece.get(got))
            shas[piece.path] = sha256_of(paths[-1])
        return paths, shas

    def _finished(self, task: Task, data: DataFile, lock: Lock) -> Lock | None:
        """Take what another store has whole, made by the same rules and of the pins of ours; the lock with its pins."""
        assert self.given is not None
        place = self.given / task.name
        record = read_record(place)
        if record is None or record.rules != rules_digest(data) or not set(data.made) <= record.files.keys():
            return None
        met = lock.copy()
        for source, was in zip(data.fetched, record.sources, strict=False):
            found = Found(was.revision, ())
            pin = lock.get(source.where_from, source.revision)
            _compare(source, found, was.files, pin, self.refresh, lock.path)
            met.add(Pin(source.where_from, source.revision, was.revision, was.files))
        for name in data.made:
            shutil.copyfile(place / name, part_of(task, name))
            if sha256_of(part_of(task, name)) != record.files[name].sha256:
                raise PtbError(
                    f"{place / name} is not what its record says", hint="copy it again from where it is whole"
                )
        for name in data.made:
            os.replace(part_of(task, name), task.store / name)
        self._record(task, data, list(record.sources), {name: record.files[name] for name in data.made})
        if met.pins != lock.pins:
            met.write()
        self.say(f"{task.name}: taken from {place}")
        return met

    def _generated(self, task: Task, source: Generated) -> str:
        """Take a file that is made or supplied, when it is given; else what a person has to do, empty for nothing."""
        if self.given is not None:
            for place in Folder(self.given).places(task.name):
                if (place / source.file).is_file():
                    supply(task, source, place / source.file)
                    self.say(f"{task.name}: {source.file} taken from {place}")
                    return ""
        if source.file in task.beside:
            return ""
        ways = [f"`{source.made_by}` makes it"] if source.made_by else []
        return (
            f"{task.name}: {source.file} is not offered anywhere: {' or '.join([*ways, '--from FOLDER supplies it'])}"
        )


def is_whole(task: Task, data: DataFile, lock: Lock) -> bool:
    """Whether the store has a task as its rules and the lock say, every byte compared."""
    record = read_record(task.store)
    if record is None or record.rules != rules_digest(data) or len(record.sources) != len(data.fetched):
        return False
    for source, was in zip(data.fetched, record.sources, strict=True):
        pin = lock.get(source.where_from, source.revision)
        if (
            pin is None
            or pin.revision != was.revision
            or any(pin.files.get(name) != sha for name, sha in was.files.items())
        ):
            return False
    with contextlib.suppress(OSError, KeyError):
        return all(sha256_of(task.store / name) == record.files[name].sha256 for name in data.made)
    return False


def _compare(source: Fetched, found: Found, shas: dict[str, str], pin: Pin | None, refresh: bool, lock: Path) -> None:
    """PtbError unless the files are those that `data.toml` and the lock say."""
    where, whole = source.where_from, combined(shas)
    if source.sha256 and source.sha256 != whole:
        raise PtbError(
            f"{where}: sha256 is {whole}, and data.toml says {source.sha256}",
            hint="these are other data than the task's; compare them before you change data.toml",
        )
    if pin is None or (refresh and (not found.revision or pin.revision != found.revision)):
        return
    if found.revision and pin.revision and pin.revision != found.revision:  # of a folder, none may be known
        raise PtbError(f"{where}: revision {found.revision[:12]}, and {lock} says {pin.revision[:12]}", hint=_ACCEPT)
    for path, sha in shas.items():
        if pin.files.get(path, sha) != sha:
            raise PtbError(f"{where}: {path} has sha256 {sha}, and {lock} says {pin.files[path]}", hint=_ACCEPT)


_ACCEPT = "these are other data than were fetched before; remove the entry from the lock file to take them"


def _moved(lock: Lock, pin: Pin) -> str:
    before = lock.get(pin.where, pin.asked)
    if (
        before is None
        or before == pin
        or (before.revision == pin.revision and before.files.items() <= pin.files.items())
    ):
        return ""
    was, now = (other.revision[:12] or combined(other.files)[:12] for other in (before, pin))
    return f"; {pin.where} moved from {was} to {now}"


def _unwritable(path: Path, error: OSError) -> StorageError:
    hint = "repair its rights, or choose another folder with PTB_DATA_DIR or `data_store` of the site"
    return StorageError(f"{path}: {error.strerror}", hint=hint)


def summary(outcome: Outcome) -> str:
    """One line; PtbError names what failed when something did."""
    words = f"{len(outcome.fetched)} fetched, {len(outcome.there)} there already"
    if not outcome.failed:
        return "; ".join((words, *outcome.notes))
    first = outcome.failed[0]
    more = f" (and {len(outcome.failed) - 1} more, named above)" if len(outcome.failed) > 1 else ""
    raise PtbError(f"{words}; {len(outcome.failed)} not: {first.task}: {first.words}{more}", hint=first.remedy)
