"""Prompts, protocols and what differs between two, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.core.text import sanitize
from ptb_tui.present import numbers
from ptb_tui.present.table import Cell, Table

if TYPE_CHECKING:
    from ptb_tui.core.benchmark import BenchmarkRef, DiffView, PromptView, ProtocolsView
    from ptb_tui.present.output import Output

_LIMIT = 1 << 20
_SIGNS = {"changed": "~", "added": "+", "removed": "-"}
_COLOURS = {"changed": "yellow", "added": "green", "removed": "red"}


def prompt(out: Output, view: PromptView) -> None:
    """The prompt alone on stdout; what it belongs to on stderr."""
    how = "was given" if view.sent else "would be given"
    out.note(f"{view.method}, {view.benchmark} on {view.model}: {how} this prompt, from {view.file}")
    out.write(sanitize(view.text, limit=_LIMIT, newlines=True))


def protocols(out: Output, view: ProtocolsView) -> None:
    """One line each."""
    table = Table(("PROTOCOL", "FINGERPRINT", "PROMPT", "TASKS", "FROM"), right=frozenset({3}))
    for row in view.protocols:
        last = Cell(row.problem, "red") if row.problem else Cell(row.file, "grey")
        table.add(row.name, row.fingerprint, row.prompt, str(len(row.tasks)) if row.tasks else "", last)
    out.table(table)


def _side(ref: BenchmarkRef) -> str:
    items = f", items {ref.items}" if ref.items else ""
    return f"{ref.asked}: protocol {ref.protocol or 'unknown'}, fingerprint {ref.fingerprint}{items}"


def diff(out: Output, view: DiffView) -> None:
    """Both sides, then the files that differ, each with its lines where they were asked for."""
    out.line(_side(view.before))
    out.line(_side(view.after))
    for file in view.files:
        out.line(f"{_SIGNS[file.how]} {file.file}", _COLOURS[file.how])
        for line in file.text.splitlines()[2:]:
            out.line(line, {"+": "green", "-": "red"}.get(line[:1], "grey"), indent=4)
    same = view.before.fingerprint == view.after.fingerprint
    if same or view.files:
        out.line("the same" if same else f"{numbers.count(len(view.files), 'file')} differ", "grey")
    if view.note:
        out.note(view.note)
