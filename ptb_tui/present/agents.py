"""Agents and their CLIs, as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.present import numbers
from ptb_tui.present.table import Cell, Table

if TYPE_CHECKING:
    from ptb_tui.core.supply import AgentRow, AgentsView
    from ptb_tui.present.output import Output

NONE = "–"


def _version(row: AgentRow) -> Cell:
    if row.problem or not row.ready:
        return Cell(NONE, "red")
    if row.newest and row.version and row.newest != row.version:
        return Cell(row.version, "yellow")
    return Cell(row.version or NONE, "green" if row.version else "grey")


def agent_list(out: Output, view: AgentsView) -> None:
    """Every agent with what its next run gets; yellow where there is a newer version."""
    table = Table(("AGENT", "CLI", "CURRENT", "NEWEST", "LAST USED", "WHERE FROM"))
    for row in view.agents:
        used = f"{row.last_used[:10]} run {row.last_run}" if row.last_used else NONE
        words = Cell(row.problem, "red") if row.problem else Cell(row.source, "" if row.ready else "red")
        table.add(row.name, row.cli or NONE, _version(row), row.newest or NONE, used, words)
    out.table(table)
    asked = max((row.newest_asked for row in view.agents), default="")
    when = f"newest as of {asked[:16].replace('T', ' ')}" if asked else "newest not asked yet: --check"
    how = "" if view.updates == "store" else f" · cli_updates = {view.updates}"
    out.line(f"{numbers.count(len(view.agents), 'agent')} · store {view.store} · {when}{how}", "grey")
    missing = sorted({row.cli for row in view.agents if row.cli and not row.ready and not row.problem})
    if missing:
        out.line(f"to get a CLI: ptb-tui agents update NAME, for example {missing[0]}", "grey")
    for problem in view.problems:
        out.note(problem)
