"""What of a task's data a site has: looked at in the files, never on the network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ptb_tui.content.datafile import BESIDE, DataFile, HubSource
from ptb_tui.content.items import read_record, recorded, remedy, repair, rules_digest, sha256_of, whole_look
from ptb_tui.content.tasks import Task
from ptb_tui.core.supply import ItemFile, SourceRow, TaskDataRow
from ptb_tui.run.fetching import SOURCES
from ptb_tui.supplies import download
from ptb_tui.supplies.datalock import Lock
from ptb_tui.supplies.hub import Repo

State = Literal["missing", "partial", "fetched", "unpinned", "changed", "supplied"]


@dataclass(frozen=True, slots=True)
class _Judgement:
    state: State
    words: str = ""
    remedy: str = ""


def look(task: Task, lock: Lock) -> TaskDataRow:
    """One task. Every byte of its files is read."""
    files = tuple(_file(task, name) for name in BESIDE if name in task.beside)
    pin = _pin(task.data, lock) if task.data else ""
    found = _judged(task, task.data, lock, files)
    return TaskDataRow(
        name=task.name,
        state=found.state,
        pin=pin,
        gated=any(source.gated for source in task.data.fetched) if task.data else False,
        files=files,
        sources=_sources(task, task.data, lock) if task.data else (),
        folder=str(task.store if task.data else task.folder),
        words=found.words,
        remedy=found.remedy,
    )


def _file(task: Task, name: str) -> ItemFile:
    path, record = task.beside[name], read_record(task.store)
    wrong, count = whole_look(path)
    try:
        size, digest = path.stat().st_size, sha256_of(path)
    except OSError as error:
        return ItemFile(name=name, path=str(path), words=f"cannot be read: {error.strerror}")
    kept = recorded(task, record, path)
    origin: Literal["fetched", "supplied", "changed"] = "supplied"
    if kept is not None:
        origin = "fetched" if kept.sha256 == digest else "changed"
    return ItemFile(name=name, path=str(path), size=size, count=count, sha256=digest, words=wrong, origin=origin)


def _judged(task: Task, data: DataFile | None, lock: Lock, files: tuple[ItemFile, ...]) -> _Judgement:
    lacking = [name for name in task.needed if name not in task.beside]
    first = remedy(task, next((name for name in lacking if data and name in data.made), lacking[0])) if lacking else ""
    for file in files:
        if file.words:
            words = f"{file.path} {file.words}"
            return _Judgement("changed", words, repair(task, Path(file.path)))
    if lacking:
        begun = files or (data is not None and _begun(task, data, lock))
        words = f"{', '.join(lacking)} missing" if files else "begun, not whole" if begun else ""
        return _Judgement("partial" if begun else "missing", words, first)
    if all(Path(file.path).parent == task.folder for file in files if file.name in task.needed):
        return _Judgement("supplied", "in the task's folder")
    again = f"ptb-tui data fetch {task.name}"
    if changed := [file.path for file in files if file.origin == "changed"]:
        return _Judgement("changed", f"{changed[0]} is not what was fetched", again)
    record = read_record(task.store)
    if record is None or data is None or not record.sources:
        return _Judgement("supplied", "no record of where it is from")
    if record.rules != rules_digest(data):
        return _Judgement("changed", "data.toml says something else since", again)
    for source, was in zip(data.fetched, record.sources, strict=False):
        pin = lock.get(source.where_from, source.revision)
        if pin is None and not (source.revision and source.sha256):
            return _Judgement("unpinned", f"{lock.path.name} does not say which {source.where_from} it is", again)
        if pin is not None and (
            pin.revision != was.revision or any(pin.files.get(n) != s for n, s in was.files.items())
        ):
            return _Judgement("changed", f"{lock.path.name} says another {source.where_from}", again)
    own = [file.name for file in files if Path(file.path).parent == task.folder]
    return _Judgement("fetched", f"{', '.join(own)} from the task's folder" if own else "")


def _pin(data: DataFile, lock: Lock) -> Literal["pinned", "locked", "unpinned", ""]:
    """How well it is fixed which data these are: the weakest of all sources."""
    kinds: set[str] = set()
    for source in data.fetched:
        whole = source.sha256 and (source.revision or not isinstance(source, HubSource))
        kinds.add("pinned" if whole else "locked" if lock.get(source.where_from, source.revision) else "unpinned")
    order: tuple[Literal["unpinned", "locked", "pinned"], ...] = ("unpinned", "locked", "pinned")
    return next((kind for kind in order if kind in kinds), "")


def _sources(task: Task, data: DataFile, lock: Lock) -> tuple[SourceRow, ...]:
    rows, record = [], read_record(task.store)
    known = record.sources if record is not None and len(record.sources) == len(data.fetched) else ()
    for number, source in enumerate(data.fetched):
        pin = lock.get(source.where_from, source.revision)
        rows.append(
            SourceRow(
                where=source.where_from,
                use=source.use,
                revision=pin.revision if pin else source.revision,
                files=known[number].files if known else {},
                count=source.count,
                gated=source.gated,
            )
        )
    return tuple(dict((row.model_dump_json(), row) for row in rows).values())


def _begun(task: Task, data: DataFile, lock: Lock) -> bool:
    """Whether anything of the sources was downloaded, whole or in part."""
    cache = task.store.parent / SOURCES
    for source in data.fetched:
        if isinstance(source, HubSource):
            place = cache / "hub" / Repo("dataset", source.repo).folder
        else:
            place = download.url_path(cache, source.url).parent
        if place.is_dir() and any(path.is_file() for path in place.rglob("*") if path.name != "README.md"):
            return True
    return False
