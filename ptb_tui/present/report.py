"""Receipts of actions, and doctor."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ptb_tui.present import numbers, words
from ptb_tui.present.table import Cell, Table, lay_out

if TYPE_CHECKING:
    from ptb_tui.core.action import Receipt
    from ptb_tui.core.query import DoctorReport
    from ptb_tui.present.output import Output

FILES = 20  # of a receipt that are named one by one


def receipt(out: Output, done: Receipt) -> None:
    """What an action did."""
    if done.words:
        out.line(done.words)
    for run in done.runs:
        what = run.words or ("new" if run.created else "as before")
        out.line("  ".join(part for part in (f"run {run.id}", run.method, run.run, what) if part), indent=2)
    for path in done.files if len(done.files) <= FILES else ():
        out.line(f"wrote {path}", indent=2)
    if len(done.files) > FILES:
        folders = Counter(path.rpartition("/")[0] for path in done.files)
        for folder, count in folders.items():
            out.line(f"wrote {numbers.count(count, 'file')} in {folder}", indent=2)
    for problem in done.problems:
        out.note(problem)


def doctor(out: Output, report: DoctorReport) -> None:
    """Every check with its remedy."""
    table = Table(("", "CHECK", "FOUND"))
    for check in report.checks:
        look = words.check(check.state)
        found = f"{check.words} → {check.remedy}" if check.remedy and check.state != "ok" else check.words
        table.add(Cell(look.text(ascii_only=out.ascii_only), look.colour), check.name, found)
    bad = sum(check.state == "bad" for check in report.checks)
    out.spans(lay_out(table))  # never cut: a remedy is worth a second line
    out.line(f"{numbers.count(len(report.checks), 'check')}, {bad} bad", "bold")
