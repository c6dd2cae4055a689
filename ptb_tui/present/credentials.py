"""Logins and keys, as a table for people. No value of one is ever part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.present.table import Cell, Table

if TYPE_CHECKING:
    from ptb_tui.core.credential import CredentialRow, CredentialsView
    from ptb_tui.present.output import Output

NONE = "–"
_COLOURS = {"ok": "green", "absent": "grey"}


def _users(row: CredentialRow) -> str:
    judges = [f"judge {name}" for name in row.judges]
    names = [*row.agents, *judges]
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "") or NONE


def credential_list(out: Output, view: CredentialsView) -> None:
    """One line each: what it is, how it stands, who uses it, until when, which limit it met and when that ends."""
    table = Table(("NAME", "KIND", "STATE", "ENDS", "RUNS NOW", "LAST LIMIT", "RESETS", "FOR"))
    for row in view.credentials:
        runs = ", ".join(map(str, row.runs[:3])) + (" …" if len(row.runs) > 3 else "") or NONE
        table.add(
            row.name,
            row.what,
            Cell(row.state, _COLOURS.get(row.state, "red")),
            row.expires or NONE,
            runs,
            row.limit or NONE,
            row.resets or NONE,
            _users(row),
        )
    out.table(table)
    for row in view.credentials:
        if row.words and (row.what != "api_key"):
            remedy = f" · ptb-tui credentials login {row.name}" if row.login else ""
            out.line(f"{row.name}: {row.words}{remedy}", "grey")
        elif row.origin == "beside solve.sh":
            out.line(f"{row.name}: read in place from {row.file}", "grey")
    if any(row.what == "api_key" and row.state == "absent" for row in view.credentials):
        out.line("a key that is absent: put NAME=… into .env", "grey")
    out.line(f"logins of this site: {view.folder} · docs/credentials.md says how each is obtained", "grey")
    for problem in view.problems:
        out.note(problem)
