"""The files of items that a task has: whether they are whole, what they are, and what to do about those that are not.

A plan looks at sizes, first and last bytes; a step reads every line (`check`). What a fetch wrote is compared with
its record, `<store>/<task>/record.json`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ptb_tui.content.datafile import NAME, TEST_DATA, DataFile
from ptb_tui.content.tasks import Task
from ptb_tui.core import files
from ptb_tui.core.errors import StepError
from ptb_tui.core.spec import Problem

RECORD = "record.json"
MAX_ITEMS = 1 << 30  # bytes of one file
_HEAD = 1 << 16
_CHUNK = 1 << 20


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class FileRecord(_Model):
    """A file that a fetch wrote."""

    count: int
    size: int
    sha256: str


class SourceRecord(_Model):
    """A source as it was fetched; `files` is path → sha256."""

    where: str
    revision: str = ""
    files: dict[str, str] = {}
    sha256: str = ""


class Record(_Model):
    """`record.json` of a fetched task. `rules` is the digest of the `data.toml` that was followed."""

    v: int = 1
    t: str = ""
    rules: str = ""
    sources: tuple[SourceRecord, ...] = ()
    files: dict[str, FileRecord] = {}


def read_record(store: Path) -> Record | None:
    """What was fetched into a task's folder of the store; None when nothing is recorded or it cannot be read."""
    raw = files.read_object(store / RECORD)
    try:
        return Record.model_validate(raw) if raw is not None else None
    except ValidationError:
        return None


def rules_digest(data: DataFile) -> str:
    """sha256 of what a `data.toml` says, whatever its comments and order."""
    return hashlib.sha256(json.dumps(data.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """sha256 of a file. OSError."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_CHUNK):
            found.update(piece)
    return found.hexdigest()


def first_look(path: Path) -> str:
    """What is wrong with a file of items as far as its size, beginning and end tell; empty when nothing."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            file.seek(max(0, size - 64))
            tail = file.read(64)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not head.strip():
        return "is empty" if size == 0 else "holds no items"
    if size > MAX_ITEMS:
        return f"has {size:,} bytes, more than {MAX_ITEMS:,}"
    if path.suffix == ".json":
        whole = head.lstrip().startswith(b"[") and tail.rstrip().endswith(b"]")
        return "" if whole else "is not a JSON array"
    line, _, rest = head.partition(b"\n")
    if not rest and size > len(head):  # one item longer than the look
        return "" if line.lstrip().startswith(b"{") else "is not one JSON object a line"
    try:
        whole = isinstance(json.loads(line), dict)
    except ValueError:
        whole = False
    return "" if whole else "is not one JSON object a line"


def _items(path: Path) -> Iterator[Any]:
    """The items of a file, an error in words instead of one that is none."""
    if path.suffix == ".json":
        try:
            whole = json.loads(path.read_bytes())
        except ValueError as error:
            yield f"is not JSON: {error}"
            return
        yield from whole if isinstance(whole, list) else ("is not a JSON array",)
        return
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError:
                    yield f"line {number} is not JSON"


def whole_look(path: Path) -> tuple[str, int]:
    """What is wrong with a file of items, every item read, and how many it holds."""
    if found := first_look(path):
        return found, 0
    count = 0
    try:
        for item in _items(path):
            if not isinstance(item, dict):
                return item if isinstance(item, str) else f"item {count + 1} is not a JSON object", count
            if path.name == TEST_DATA and not {"question", "answer"} <= item.keys():
                return f"item {count + 1} lacks question or answer", count
            count += 1
    except (OSError, RecursionError) as error:
        return f"cannot be read: {error}", count
    return "" if count else "holds no items", count


def remedy(task: Task, name: str = "") -> str:
    """What makes or fetches a file of a task."""
    for source in task.data.generated if task.data else ():
        if source.file == name:
            supply = f"put the file into {task.store}"
            return f"{source.made_by}, or {supply}" if source.made_by else supply
    if task.data is None:
        return f"put {name or 'the file'} into {task.folder}; this task has no {NAME} that says where it is from"
    return f"ptb-tui data fetch {task.name}"


def repair(task: Task, path: Path) -> str:
    """What to do about a file of a task that is broken."""
    if path.parent == task.folder:
        return f"repair or remove {path}"
    return remedy(task, path.name)


def recorded(task: Task, record: Record | None, path: Path) -> FileRecord | None:
    """What a fetch recorded of a file of the store."""
    return record.files.get(path.name) if record is not None and path.parent == task.store else None


def item_problems(task: Task) -> list[Problem]:
    """What of a task's data stands in the way of a run, one clear sentence each, with its remedy."""
    found, record = [], read_record(task.store)
    for name in task.needed:
        path = task.beside.get(name)
        if path is None:
            where = task.folder / name if task.data is None else task.store / name
            found.append(Problem(words=f"{where} is missing", remedy=remedy(task, name)))
        elif words := first_look(path):
            found.append(Problem(words=f"{path} {words}", remedy=repair(task, path)))
        elif (kept := recorded(task, record, path)) is not None and os.stat(path).st_size != kept.size:
            words = f"{path} is not what was fetched: its size has changed"
            found.append(Problem(words=words, remedy=f"ptb-tui data fetch {task.name}"))
    return found


def check(task: Task, names: tuple[str, ...] = ()) -> None:
    """Read every item of the files a task needs, or of those named. StepError, cause `prepare_failed`, in one sentence:
    a file is missing, empty, not readable as items, or not what was fetched.
    """
    record = read_record(task.store)
    for name in names or task.needed:
        path = task.beside.get(name)
        if path is None:
            words, what = f"{(task.store if task.data else task.folder) / name} is missing", remedy(task, name)
        else:
            wrong, _ = whole_look(path)
            kept = recorded(task, record, path)
            if not wrong and kept is not None and sha256_of(path) != kept.sha256:
                wrong = "is not what was fetched: it has changed since"
            if not wrong:
                continue
            words, what = f"{path} {wrong}", repair(task, path)
        raise StepError(f"{words}; {what}", cause="prepare_failed", hint=what)


def data_facts(task: Task) -> dict[str, Any]:
    """The data a run of this task uses, for its provenance: `files` is name → {sha256, count, origin}, where origin is
    `fetched`, `supplied` (in the task's folder, or put into the store), or `changed` (not what the record says);
    `sources` is where what was fetched came from, with revisions and sha256. OSError when a file cannot be read.
    """
    record, listed = read_record(task.store), {}
    for name, path in task.beside.items():
        digest, (_, count) = sha256_of(path), whole_look(path)
        kept = recorded(task, record, path)
        origin = "supplied" if kept is None else "fetched" if kept.sha256 == digest else "changed"
        listed[name] = {"sha256": digest, "count": count, "origin": origin}
    facts: dict[str, Any] = {"files": listed}
    if record is not None and any(entry["origin"] != "supplied" for entry in listed.values()):
        facts["sources"] = [source.model_dump() for source in record.sources]
    return facts
