"""Verbs about verdicts: flagged, review."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from ptb_tui.cli.call import Call, app, verb
from ptb_tui.cli.runs import runs
from ptb_tui.core.errors import UsageError
from ptb_tui.present.arguments import Reason, Run, one_of


@verb(app, runs)
async def flagged(
    call: Call,
    judges: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="J", help="Only this judge, by folder or output id; repeat it."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also what people decided, what is missing or late, and void runs.")
    ] = False,
) -> int:
    """List verdicts to look at: flagged, contradictory, unreadable, split. What a score waits for comes first.

    Each has its evidence and the command that decides it. Exits with 1 when there is one."""
    from ptb_tui.core.review import FlaggedQuery
    from ptb_tui.present.verdicts import flagged as show

    answer = await call.show(FlaggedQuery(judges=tuple(judges or ()), all=every), show)
    return int(bool(answer.verdicts))


@verb(app, runs)
async def review(
    call: Call,
    run: Run,
    judge: Annotated[str, typer.Argument(metavar="JUDGE", help="Folder or output id; a unique beginning will do.")],
    decision: Annotated[str, typer.Argument(metavar="clear|flag|confirm", help="What the verdict shall be.")],
    reason: Reason = "",
    field: Annotated[str, typer.Option("--field", metavar="F", help="Only this flag of the judge.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, write nothing.")] = False,
) -> int:
    """Decide about a judge's verdict. The newest decision counts before everything judges say.

    clear: no flag is up. flag: the flag is up; with several flags --field says which. confirm: as it is in force now,
    also against a contradiction. A later review takes an earlier one back; all are kept."""
    from ptb_tui.core.action import Review
    from ptb_tui.core.review import Decision

    chosen: Decision = one_of("the decision", decision, get_args(Decision))
    if not reason.strip():
        raise UsageError("a decision needs its reason", hint="--reason TEXT; it is shown beside the verdict")
    if len(reason) > 4000:
        raise UsageError("the reason is longer than 4000 characters", hint="say the main thing, and where the rest is")
    return await call.do(
        run,
        lambda name: Review(run=name, judge=judge, decision=chosen, reason=reason, field=field, dry_run=dry_run),
    )
