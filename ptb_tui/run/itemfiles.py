"""The files of items that a task's folder in the data store holds: written whole or not at all, and recorded."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ptb_tui.content import selection
from ptb_tui.content.datafile import ITEMS, DataFile, Fetched, Generated
from ptb_tui.content.items import RECORD, FileRecord, Record, read_record, sha256_of, whole_look
from ptb_tui.content.tasks import Task
from ptb_tui.core import files
from ptb_tui.core.errors import PtbError
from ptb_tui.supplies import datarows


def part_of(task: Task, name: str) -> Path:
    """Where a file of a task is written before it is whole."""
    return task.store / f".{name}.part"


def supply(task: Task, source: Generated, path: Path) -> FileRecord:
    """Put a file that is made or supplied into the store, whole or not at all, and record it. PtbError, naming both
    numbers, when it is not what `data.toml` says."""
    wrong, count = whole_look(path)
    if wrong:
        raise PtbError(f"{path} {wrong}")
    if source.count not in (None, count):
        raise PtbError(f"{path} holds {count} items, and data.toml of {task.name} says {source.count}")
    task.store.mkdir(parents=True, exist_ok=True)
    part = part_of(task, source.file)
    shutil.copyfile(path, part)
    entry = FileRecord(count=count, size=part.stat().st_size, sha256=sha256_of(part))
    if source.sha256 and source.sha256 != entry.sha256:
        part.unlink()
        raise PtbError(f"{path} has sha256 {entry.sha256}, and data.toml of {task.name} says {source.sha256}")
    os.replace(part, task.store / source.file)
    before = read_record(task.store) or Record()
    kept = before.model_copy(update={"files": {**before.files, source.file: entry}})
    files.replace(task.store / RECORD, files.dump(kept.model_dump()))
    return entry


def write_items(
    data: DataFile, name: str, feeding: Sequence[tuple[Fetched, Sequence[Path]]], target: Path
) -> FileRecord:
    """Write one file of a task from the rows of its sources, one JSON object a line; PtbError names source and row."""
    seen: set[str] = set()
    total = 0
    with open(target, "w", encoding="utf-8") as out:
        for source, paths in feeding:
            count = 0
            try:
                for line in _lines(data, name, source, paths, seen):
                    out.write(("[\n" if not total else ",\n") + line if name != ITEMS else line + "\n")
                    count += 1
                    total += 1
            except PtbError as error:
                target.unlink(missing_ok=True)
                raise type(error)(f"{source.where_from}: {error.message}", hint=error.hint) from error
        if name != ITEMS:
            out.write("\n]\n")
        out.flush()
        os.fsync(out.fileno())
    return FileRecord(count=total, size=target.stat().st_size, sha256=sha256_of(target))


def _lines(data: DataFile, name: str, source: Fetched, paths: Sequence[Path], seen: set[str]) -> Iterator[str]:
    whole = count = 0

    def rows() -> Iterator[selection.Row]:
        nonlocal whole
        for path in paths:
            for row in datarows.rows(path, source.format or ""):
                whole += 1
                yield row

    for number, row in selection.selected(source, rows()):
        count += 1
        if name == ITEMS:
            made = selection.item(data.items, source, row, number)
            key = json.dumps(made["id"])
            if key in seen:
                raise selection.SelectionError(f"row {number}: there is an item with the id {key} already")
            seen.add(key)
            yield json.dumps(made, ensure_ascii=False)
        elif data.test_data is not None:
            yield json.dumps(selection.test_item(data.test_data, row, number), ensure_ascii=False)
    selection.counted(source, count, whole)
