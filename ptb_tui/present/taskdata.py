"""The items of tasks, as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.present import numbers
from ptb_tui.present.table import Cell, Table

if TYPE_CHECKING:
    from ptb_tui.core.supply import DataView, TaskDataRow
    from ptb_tui.present.output import Output

_COLOURS = {"fetched": "green", "supplied": "green", "missing": "grey"}


def _count(row: TaskDataRow, name: str) -> str:
    return next((str(file.count) for file in row.files if file.name == name), "–")


def task_data(out: Output, view: DataView, *, detailed: bool) -> None:
    """One line for each task; `detailed` for few of them: also every file and source."""
    table = Table(("TASK", "STATE", "PIN", "ITEMS", "TEST DATA", ""), right=frozenset({3, 4}))
    for row in view.tasks:
        words = "; ".join(filter(None, (row.words, "gated" if row.gated and row.state == "missing" else "")))
        words = f"{words} → {row.remedy}" if row.remedy and words else words or row.remedy
        state = Cell(row.state, _COLOURS.get(row.state, "yellow"))
        table.add(row.name, state, row.pin, _count(row, "items.jsonl"), _count(row, "test_data.json"), words)
    out.table(table)
    for row in view.tasks:
        said = [
            f"{row.name}: {one.problem}" + (f" → {one.remedy}" if one.remedy else "")
            for one in row.sources
            if one.problem
        ]
        for words in dict.fromkeys(said):
            out.line(words, "yellow")
        if detailed and len(view.tasks) <= 3:
            _details(out, row)
    sizes = [source.size for row in view.tasks for source in row.sources if source.size is not None]
    ready = sum(row.state in ("fetched", "supplied") for row in view.tasks)
    parts = [f"{ready} of {numbers.count(len(view.tasks), 'task')} with their items", f"in {view.store}"]
    if sizes:
        parts.append(f"{numbers.size(sum(sizes))} to fetch")
    out.line(" · ".join(parts), "grey")
    if view.fetching:
        out.line(f"being fetched by {view.fetching}", "cyan")


def _details(out: Output, row: TaskDataRow) -> None:
    for file in row.files:
        what = file.words or f"{numbers.count(file.count, 'item')}, {numbers.size(file.size)}, {file.origin}"
        out.line(f"{file.path}")
        out.line(f"  {what}" + (f", sha256 {file.sha256}" if file.sha256 else ""), "grey")
    for source in row.sources:
        size = f", {numbers.size(source.size)}" if source.size is not None else ""
        gated = ", gated" if source.gated else ""
        at = f" at {source.revision}" if source.revision else ""
        out.line(f"{source.use} from {source.where}{at}{size}{gated}")
        for path, sha in source.files.items():
            out.line(f"  {path}, sha256 {sha}", "grey")
