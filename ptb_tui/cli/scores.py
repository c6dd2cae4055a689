"""Verbs about scores: show them, write them, and decide which run stands for a cell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from ptb_tui.cli.call import Call, app, verb
from ptb_tui.cli.runs import runs
from ptb_tui.core.errors import UsageError
from ptb_tui.present.arguments import Policy, Protocol, Reason, Run, one_of

Groups = Annotated[
    Path | None, typer.Option("--groups", metavar="FILE", help="TOML: rows of the leaderboard and their methods.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Instead of <results>/_aggregated.")]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="DIR", help="Also a report there: report.html and report.md.")
]
Dry = Annotated[bool, typer.Option("--dry-run", help="Show the table and the files it would write.")]
POLICIES = ("finished", "upstream")


def _groups(path: Path | None) -> dict[str, tuple[str, ...]]:
    from ptb_tui.core.groups import read_groups

    return read_groups(path) if path is not None else {}


def _place(call: Call, path: Path | None) -> str:
    """A folder as the site names it: absolute; a relative one would be another place at another site."""
    if path is None:
        return ""
    if not path.is_absolute() and (call.common.site or "local") != "local":
        raise UsageError(f"{path}: an absolute folder is needed at site {call.common.site}")
    return os.path.abspath(path)


@verb(app, runs)
async def collect(
    call: Call,
    protocol: Protocol = "",
    policy: Policy = "finished",
    groups: Groups = None,
    out: Out = None,
    report: Report = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Also cells.parquet; needs pyarrow.")] = False,
    dry_run: Dry = False,
) -> int:
    """Write the score tables. They are computed from what is there now. The exit code is 0 when every cell counts, 5
    when one is unjudged or quarantined, else 1."""
    from ptb_tui.core.action import Collect
    from ptb_tui.core.query import ScoresQuery
    from ptb_tui.present.scores import board, exit_code, worths

    chosen = one_of("--policy", policy, POLICIES)
    named, place, report_place = _groups(groups), _place(call, out), _place(call, report)
    if dry_run:
        query = ScoresQuery(protocol=protocol, policy=chosen, groups=named, files=True, out=place, report=report_place)
        answer = await call.show(query, lambda out, answer: board(out, answer.board, dry_run=True))
        return exit_code(worths(answer.board))
    action = Collect(protocol=protocol, policy=chosen, groups=named, out=place, report=report_place, parquet=parquet)
    receipt = await call.once(action)
    return exit_code(receipt.cells)


@verb(app)
async def scores(
    call: Call,
    protocol: Protocol = "",
    policy: Policy = "finished",
    groups: Groups = None,
    published: Annotated[bool, typer.Option("--published", help="Also rows published for the protocol.")] = False,
) -> int:
    """Show the leaderboard and the score table without writing them."""
    from ptb_tui.core.query import ScoresQuery
    from ptb_tui.present.scores import board

    query = ScoresQuery(protocol=protocol, policy=one_of("--policy", policy, POLICIES), groups=_groups(groups))
    await call.show(query, lambda out, answer: board(out, answer.board, published=published))
    return 0


@verb(app, runs)
async def pin(call: Call, run: Run, reason: Reason = "") -> int:
    """Let a run stand for its cell, whatever the policy `finished` would choose. `undo` takes it back."""
    from ptb_tui.core.action import Pin

    return await call.do(run, lambda name: Pin(run=name, reason=reason))


@verb(app, runs)
async def void(call: Call, run: Run, reason: Reason = "") -> int:
    """Let a run stand for nothing. It stays where it is; `undo` takes it back."""
    from ptb_tui.core.action import Void

    return await call.do(run, lambda name: Void(run=name, reason=reason))


@verb(app, runs)
async def undo(
    call: Call,
    run: Run,
    what: Annotated[str, typer.Option("--what", metavar="W", help="pin or void; empty: whatever is in force.")] = "",
    reason: Reason = "",
) -> int:
    """Take the pin or the void of a run back. The records stay."""
    from ptb_tui.core.action import Undo

    chosen: Literal["", "pin", "void"] = one_of("--what", what, ("pin", "void")) if what else ""
    return await call.do(run, lambda name: Undo(run=name, what=chosen, reason=reason))
