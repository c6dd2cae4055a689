"""Verbs for looking after many runs: triage, export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ptb_tui.cli.call import Call, app, verb
from ptb_tui.cli.runs import runs
from ptb_tui.core.errors import UsageError
from ptb_tui.present.arguments import split_run


@verb(app, runs)
async def triage(
    call: Call,
    every: Annotated[bool, typer.Option("--all", help="Older runs of a cell and good runs too.")] = False,
    agents: Annotated[
        list[str] | None, typer.Option("--agents", metavar="A", help="Only this agent or method; repeat it.")
    ] = None,
    tasks: Annotated[list[str] | None, typer.Option("--tasks", metavar="T", help="Only this task; repeat it.")] = None,
    models: Annotated[
        list[str] | None, typer.Option("--models", metavar="M", help="Only this base model; repeat it.")
    ] = None,
) -> int:
    """Say what needs you, dearest first. With --agents, --tasks or --models also which cells have no run.

    Exits with 1 when something does."""
    from ptb_tui.core.triage import TriageQuery
    from ptb_tui.present.triage import findings

    query = TriageQuery(all=every, agents=tuple(agents or ()), tasks=tuple(tasks or ()), models=tuple(models or ()))
    answer = await call.show(query, findings)
    return int(any(finding.cost != "note" for finding in answer.findings))


@verb(app)
async def export(
    call: Call,
    chosen: Annotated[list[str] | None, typer.Argument(metavar="RUN …", help="Empty: the newest of each cell.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Empty: _ptb/export of the results.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every run, not only the newest of each cell.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Again what is there already.")] = False,
) -> int:
    """Write copies of runs without secrets. A report says what was replaced.

    Exits with 1 when a run was left out or something still looks like a key."""
    from ptb_tui.core.action import Export

    pairs = [split_run(run, call.common.site) for run in chosen or ()]
    if every and pairs:
        raise UsageError("--all and a run were given", hint="leave one of them out")
    sites = {name for name, _ in pairs} or {call.common.site or "local"}
    if len(sites) > 1:
        raise UsageError(f"runs of several sites: {', '.join(sorted(sites))}", hint="one call for each site")
    folder = str(out.absolute()) if out is not None and sites == {"local"} else str(out or "")
    action = Export(runs=tuple(run for _, run in pairs), out=folder, all=every, force=force)
    call.common = replace(call.common, site=sites.pop())
    receipt = await call.once(action)
    return int(bool(receipt.problems))
