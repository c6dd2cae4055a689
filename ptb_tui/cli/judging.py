"""The verb `judge`: ask the judges of runs that have ended again; `judge calibrate`: measure how well they judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperGroup

from ptb_tui.cli.call import STYLE, Call, Detach, app, verb
from ptb_tui.cli.runs import runs
from ptb_tui.core.errors import UsageError
from ptb_tui.present.arguments import Wait, one_of

if TYPE_CHECKING:
    from ptb_tui.core.judging import JudgingView
    from ptb_tui.present.output import Output

RUN = "RUN…"


class _Judge(TyperGroup):
    """A group whose first word may also be a run, or an option: then `RUN…` is meant."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Bring the verb to the front."""
        word = next((arg for arg in args if arg in self.commands), "")
        if word:
            args = [word, *(arg for place, arg in enumerate(args) if place != args.index(word))]
        elif "--help" in args and all(arg.startswith("-") for arg in args):
            args = ["--help"]
        else:
            args = [RUN, *args]
        return super().parse_args(ctx, args)


group = typer.Typer(cls=_Judge, **STYLE)
app.add_typer(group, name="judge", help="Ask the judges of ended runs again: judge RUN…; measure judges: calibrate.")
Judges = Annotated[
    list[str] | None, typer.Option("--judge", "--judges", metavar="J,…", help="Only these judges; may be repeated.")
]
Engine = Annotated[str, typer.Option("--engine", metavar="E", help="codex, openai_api or rules.")]
Model = Annotated[str, typer.Option("--model", metavar="M", help="Another model than the judge's.")]
Votes = Annotated[int | None, typer.Option("--votes", metavar="N", min=1, max=9, help="How many votes each gives.")]
Runs = Annotated[
    list[str] | None, typer.Argument(metavar="RUN…", help="Ids, unique prefixes, site:id or paths; see --sweep.")
]


@verb(group, name=RUN)
@verb(runs)
async def judge(
    call: Call,
    run: Runs = None,
    judges: Judges = None,
    sweep: Annotated[str, typer.Option("--sweep", metavar="S", help="All ended runs of a sweep.")] = "",
    engine: Engine = "",
    model: Model = "",
    votes: Votes = None,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Not votes that are there for the same words and model.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="By the judges of today, not those that were frozen with the run.")
    ] = False,
    protocol: Annotated[
        str, typer.Option("--protocol", metavar="P", help="Of a run of others: whose judges; else the newest's.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say who would be asked, and ask nobody.")] = False,
    wait: Wait = False,
) -> int:
    """Ask the judges of ended runs again. What they said before is kept; --dry-run shows what stands in the way.

    Runs of others, and those of roots that are only read, stay as they are: what is said about them goes to the results
    root's own folder (_ptb/overlay) and counts in the same way.
    """
    from ptb_tui.core.action import Judge
    from ptb_tui.core.judging import JudgingQuery, Request
    from ptb_tui.core.panel import EngineName
    from ptb_tui.core.rows import RunsQuery
    from ptb_tui.present.judging import plan

    named = list(run or ())
    if not named and not sweep:
        raise UsageError("no run is named", hint="ptb-tui judge RUN…, or --sweep S")
    if sweep:
        async with call.site() as (site, _):
            rows = (await site.ask(RunsQuery(sweep=sweep))).runs
        named += [str(row.id) for row in reversed(rows) if row.origin == "ptb" and row.steps_ended]
        if not named:
            raise UsageError(f"no run of a sweep {sweep!r} has ended", hint="ptb-tui runs --sweep S")
    request = Request(
        judges=_words(judges),
        engine=one_of("--engine", engine, get_args(EngineName)) if engine else None,
        model=model,
        votes=votes,
        skip_existing=skip_existing,
        fresh=fresh,
        protocol=protocol,
    )
    named = list(dict.fromkeys(named))
    if not dry_run:
        return await call.do_each(named, lambda name: Judge(run=name, request=request), wait=wait)
    blocked: list[bool] = []

    def show(out: Output, view: JudgingView) -> None:
        blocked.append(any(line.action == "blocked" for line in view.lines))
        if out.as_json:
            out.record(view.model_dump(mode="json"))
        else:
            plan(out, view)

    code = await call.show_each(named, lambda name: JudgingQuery(run=name, request=request), show)
    return code or (UsageError.exit_code if any(blocked) else 0)


def _words(given: list[str] | None) -> tuple[str, ...]:
    return tuple(word for part in given or () for word in part.split(",") if word)


@verb(group)
async def calibrate(
    call: Call,
    judges: Judges = None,
    engine: Engine = "",
    model: Model = "",
    votes: Votes = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CASE", help="Only these cases, * allowed; may be repeated.")
    ] = None,
    protocol: Annotated[
        str, typer.Option("--protocol", metavar="P", help="Whose judges; else those of the newest published protocol.")
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="Also ask what has an answer for these words.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Name cases, sessions and an estimate of their cost; ask nobody.")
    ] = False,
    detach: Detach = False,
) -> int:
    """Measure how well judges judge, on small invented runs with a known truth (judges/calibration).

    Every case goes the way of a real run: same evidence, sandbox, prompt and engine; nothing of it enters any result.
    It goes on at the site whatever becomes of this command; the same command again goes on where it stopped.
    `judge calibration` shows what was measured, and `show RUN` shows it beside each verdict.
    """
    from ptb_tui.core.action import Calibrate
    from ptb_tui.core.calibration import CalibrationOrder, CalibrationQuery
    from ptb_tui.core.panel import EngineName
    from ptb_tui.present.calibration import measured, plan

    order = CalibrationOrder(
        judges=_words(judges),
        engine=one_of("--engine", engine, get_args(EngineName)) if engine else None,
        model=model,
        votes=votes,
        only=_words(only),
        protocol=protocol,
        again=again,
    )
    if dry_run:
        view = await call.show(CalibrationQuery(order=order), plan)
        return UsageError.exit_code if any(one.blocks for one in view.plan.problems) else 0
    status = await call.work(lambda: Calibrate(order=order), detach=detach)
    if status or detach:
        return status
    await call.show(CalibrationQuery(judges=order.judges), measured)
    return 0


@verb(group)
async def calibration(call: Call, judges: Judges = None) -> int:
    """Show what was measured: found and falsely flagged cases with intervals, agreement, cost, what was missed."""
    from ptb_tui.core.calibration import CalibrationQuery
    from ptb_tui.present.calibration import measured

    await call.show(CalibrationQuery(judges=_words(judges)), measured)
    return 0
