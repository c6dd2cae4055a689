"""Verbs about runs: list, show, tail, cancel, retry, judge, queue."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ptb_tui.cli import call as calls
from ptb_tui.cli.call import Call, app, group, leads, verb
from ptb_tui.core.errors import UsageError
from ptb_tui.present.arguments import Common, Reason, Run, Wait

runs = group("runs", "List runs; show, tail, cancel, retry … one of them.")


def _quick_list(common: Common, values: dict[str, Any]) -> bool:
    """The list of this machine's runs in a third of the time; False where a site has to be asked."""
    from ptb_tui.core.settings import load

    if calls.OPENER is not None or (common.site or "local") != "local":
        return False
    results, extra = common.roots
    settings = load(env_file=common.env_file, results=results, extra=extra)
    if settings.parsed is not None and "local" in settings.parsed.sites:
        return False  # a site of that name may be anywhere
    from ptb_tui.present.output import Output
    from ptb_tui.present.runs import plain_list
    from ptb_tui.site.open import local_rows

    plain_list(Output(as_json=common.json), *local_rows(settings, **values))
    return True


@leads(runs, _quick_list)
async def list_runs(
    call: Call,
    active: Annotated[bool, typer.Option("--active", help="Only those that have not ended.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed ones.")] = False,
    sweep: Annotated[str, typer.Option("--sweep", metavar="S", help="Name or digest of a sweep.")] = "",
    match: Annotated[str, typer.Option("--match", metavar="T", help="Part of method, run, state or worth.")] = "",
) -> int:
    """List the runs, newest first; or one of the verbs below."""
    from ptb_tui.core.rows import RunsQuery
    from ptb_tui.present.runs import run_list

    async with call.site() as (site, _):
        run_list(call.out, await site.ask(RunsQuery(active=active, failed=failed, sweep=sweep, match=match)))
    return 0


@verb(app, runs)
async def show(call: Call, run: Run) -> int:
    """Show one run. What it is worth and why, steps, verdicts, files."""
    from ptb_tui.core.query import RunQuery
    from ptb_tui.present.runs import run_detail

    await call.show(RunQuery(run=run), run_detail, run)
    return 0


@verb(app, runs)
async def tail(
    call: Call,
    run: Run,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the trace ends.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The lines as the agent's CLI wrote them.")] = False,
    start: Annotated[int | None, typer.Option("--from", metavar="OFFSET", help="Begin at this byte.")] = None,
    length: Annotated[int | None, typer.Option("-n", metavar="BYTES", help="Begin this far from the end.")] = None,
) -> int:
    """Show the end of a run's trace."""
    from ptb_tui.core.query import TraceQuery
    from ptb_tui.present.trace import tail as show_tail

    if start is not None and length is not None:
        raise UsageError("--from and -n both say where to begin", hint="give one of them")
    if (start or 0) < 0 or (length is not None and length <= 0):
        raise UsageError("--from and -n take a number of bytes that is not negative", hint="for example -n 4000")
    async with call.site(run) as (site, name):
        begin = start if start is not None else -(length or 16_384)
        query = TraceQuery(run=name, offset=begin, raw=raw)
        await show_tail(call.out, site.ask, site.watch if follow else None, query)
    return 0


@verb(app, runs)
async def cancel(call: Call, run: Run, reason: Reason = "") -> int:
    """Cancel a run. A queued one never starts, a running agent is stopped and its model so far is kept."""
    from ptb_tui.core.action import Cancel

    return await call.do(run, lambda name: Cancel(run=name, reason=reason))


@verb(app, runs)
async def retry(call: Call, run: Run, reason: Reason = "", wait: Wait = False) -> int:
    """Run the same cell again, as a new run."""
    from ptb_tui.core.action import Retry

    return await call.do(run, lambda name: Retry(run=name, reason=reason), wait=wait)


@verb(app, runs)
async def queue(
    call: Call,
    kick: Annotated[bool, typer.Option("--kick", help="Start what can start, and say what was done.")] = False,
) -> int:
    """Show slots, running and waiting runs."""
    from ptb_tui.core.action import Dispatch
    from ptb_tui.core.query import QueueQuery
    from ptb_tui.present.runs import queue as show_queue

    if kick:
        return await call.do("", lambda _: Dispatch())
    await call.show(QueueQuery(), show_queue)
    return 0
