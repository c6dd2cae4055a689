"""The command line: every verb is parsed here, done by a site, and shown by `present`.

Nothing heavy is imported before a verb runs: `--help` needs typer alone. stdout is data, stderr is for people.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args

import typer

from ptb_tui.core.errors import UsageError
from ptb_tui.present.arguments import Body, Common, Policy, Protocol, Reason, Run, Wait, declare, one_of, split_run

if TYPE_CHECKING:
    from ptb_tui.core.action import Action
    from ptb_tui.core.query import Query
    from ptb_tui.core.settings import Settings
    from ptb_tui.present.output import Output
    from ptb_tui.site.api import Site

    Opener: TypeAlias = Callable[[Settings, str], Awaitable[Site]]

Quick: TypeAlias = Callable[[Common, dict[str, Any]], bool]
OPENER: Opener | None = None
"""Opens a site; None means `ptb_tui.site.open.open_site`. Tests put another one here."""

HELP = "PostTrainBench: run a sweep, watch it, judge it, score it. Every verb takes --help."
_UsageMistake: type[Exception] = typer.BadParameter.__mro__[2]  # typer's own base of all mistakes on a command line
_style: dict[str, Any] = {"rich_markup_mode": None, "add_completion": False}
app = typer.Typer(help=HELP, pretty_exceptions_enable=False, **_style)
runs = typer.Typer(**_style)


@dataclass(slots=True)
class Call:
    """One verb being carried out."""

    common: Common
    out: Output

    def settings(self) -> Settings:
        """What is configured. ConfigError names file and place."""
        from ptb_tui.core.settings import load

        return load(env_file=self.common.env_file, results=self.common.results)

    @contextlib.asynccontextmanager
    async def site(self, run: str = "") -> AsyncIterator[tuple[Site, str]]:
        """The site that is meant, with the run as that site names it; closed afterwards."""
        name, rest = split_run(run, self.common.site)
        if OPENER is not None:
            opener = OPENER
        else:
            from ptb_tui.site.open import open_site as opener
        site = await opener(self.settings(), name)
        try:
            yield site, rest
        finally:
            await site.close()

    async def show(self, query: Query, printer: Callable[[Output, Any], None], run: str = "") -> Any:
        """Ask, and show the answer: as one object, or by `printer`. Returns the answer."""
        async with self.site(run) as (site, name):
            answer: Any = await site.ask(query.model_copy(update={"run": name}) if run else query)
        if self.out.as_json:
            self.out.record(answer.model_dump(mode="json"))
        else:
            printer(self.out, answer)
        return answer

    async def do(self, run: str, make: Callable[[str], Action], *, wait: bool = False) -> int:
        """Do one action, after a question if it has one, and show its receipt; `wait` for the runs it concerned."""
        from ptb_tui.core.action import REGISTRY
        from ptb_tui.present import prompt, report

        async with self.site(run) as (site, name):
            action = make(name)
            operator = self.settings().operator
            question = REGISTRY[type(action)].confirm.format(run=name)
            ask = question and not self.common.yes and prompt.can_ask(self.out)
            if ask and not await prompt.confirmed(self.out, question):
                raise UsageError("not confirmed; nothing was done", hint="--yes asks nothing")
            receipt = await site.do(action.model_copy(update={"operator": operator}), os.urandom(16).hex())
            if self.out.as_json:
                self.out.record({"kind": "receipt", **receipt.model_dump(mode="json")})
            else:
                report.receipt(self.out, receipt)
            if not wait:
                return 0
            from ptb_tui.batch import wait_for

            return await wait_for(site, [ref.id for ref in receipt.runs], self.out)


def verb(*groups: typer.Typer, name: str = "") -> Callable[[Body], Body]:
    """Register a verb in each group under its own or another name."""

    def register(body: Body) -> Body:
        for group in groups:
            group.command(name or body.__name__)(declare(body, _carry_out(body)))
        return body

    return register


def leads(group: typer.Typer, quick: Quick | None = None) -> Callable[[Body], Body]:
    """Register what a group does when no verb follows; `quick` may do it without the event loop and a site."""

    def register(body: Body) -> Body:
        group.callback(invoke_without_command=True)(declare(body, _carry_out(body, quick)))
        return body

    return register


def _carry_out(body: Body, quick: Quick | None = None) -> Callable[[typer.Context, Common, dict[str, Any]], None]:
    def run(ctx: typer.Context, common: Common, values: dict[str, Any]) -> None:
        if body is _root and values["batch"] is None:
            _no_verb(ctx, values)
            return
        if quick is not None and quick(common, values):
            return
        import asyncio

        from ptb_tui.present.output import Output

        raise typer.Exit(asyncio.run(body(Call(common, Output(as_json=common.json)), **values)))

    return run


def _no_verb(ctx: typer.Context, values: dict[str, Any]) -> None:
    """What `ptb-tui` alone does: the console's place; until there is one, the help."""
    if any(values.values()):
        raise UsageError("--dry-run and --timeout belong to --batch FILE", hint="ptb-tui --batch sweeps/demo.toml")
    typer.echo(ctx.get_help())


@leads(app)
async def _root(
    call: Call,
    batch: Annotated[Path | None, typer.Option("--batch", metavar="FILE", help="Carry out a sweep file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan of --batch, do nothing.")] = False,
    timeout: Annotated[float | None, typer.Option("--timeout", metavar="S", help="Wait S seconds at most.")] = None,
) -> int:
    from ptb_tui.batch import Options, run_batch
    from ptb_tui.core.spec import read_sweep

    if timeout is not None and not timeout > 0:
        raise UsageError(f"--timeout {timeout}: seconds above zero are needed", hint="for example --timeout 3600")
    sweep = read_sweep(batch or Path())
    options = Options(_this_command(), dry_run, call.common.yes, timeout, call.settings().operator)
    async with call.site() as (site, _):
        return await run_batch(site, sweep, options, call.out)


def _quick_list(common: Common, values: dict[str, Any]) -> bool:
    """The list of this machine's runs in a third of the time; False where a site has to be asked."""
    from ptb_tui.core.settings import load

    if OPENER is not None or (common.site or "local") != "local":
        return False
    settings = load(env_file=common.env_file, results=common.results)
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
    """Show one run: what it is worth and why, steps, verdicts, files."""
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
    """Cancel a run: a queued one never starts, a running agent is stopped and its model so far is kept."""
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


@verb(app, runs)
async def judge(
    call: Call,
    run: Run,
    judges: Annotated[
        list[str] | None, typer.Option("--judge", metavar="J", help="Only this judge; repeat it.")
    ] = None,
    engine: Annotated[str, typer.Option("--engine", metavar="E", help="codex, openai_api or rules.")] = "",
    wait: Wait = False,
) -> int:
    """Ask the judges of a run again."""
    from ptb_tui.core.action import Judge
    from ptb_tui.core.spec import EngineName

    chosen = one_of("--engine", engine, get_args(EngineName)) if engine else None
    return await call.do(run, lambda name: Judge(run=name, judges=tuple(judges or ()), engine=chosen), wait=wait)


@verb(app, runs, name="eval")
async def evaluate(call: Call, run: Run, wait: Wait = False) -> int:
    """Evaluate a run's final model again."""
    from ptb_tui.core.action import Evaluate

    return await call.do(run, lambda name: Evaluate(run=name), wait=wait)


@verb(app, runs)
async def collect(call: Call, protocol: Protocol = "", policy: Policy = "finished") -> int:
    """Compute the score tables and write them below the results root."""
    from ptb_tui.core.action import Collect

    chosen = one_of("--policy", policy, ("finished", "upstream"))
    return await call.do("", lambda _: Collect(protocol=protocol, policy=chosen))


@verb(app)
async def scores(call: Call, protocol: Protocol = "", policy: Policy = "finished") -> int:
    """Show the score table without writing it."""
    from ptb_tui.core.query import ScoresQuery
    from ptb_tui.present.scores import board

    chosen = one_of("--policy", policy, ("finished", "upstream"))
    await call.show(ScoresQuery(protocol=protocol, policy=chosen), lambda out, answer: board(out, answer.board))
    return 0


@verb(app, runs)
async def doctor(call: Call) -> int:
    """Look for everything that could stand in the way; exits 1 when something does."""
    from ptb_tui.core.query import DoctorQuery
    from ptb_tui.present.report import doctor as show_doctor

    answer = await call.show(DoctorQuery(), show_doctor)
    return int(any(check.state == "bad" for check in answer.checks))


@verb(app)
async def version(call: Call) -> int:
    """Show the version."""
    from ptb_tui import __version__

    if call.out.as_json:
        call.out.record({"kind": "version", "version": __version__, "python": sys.version.split()[0]})
    else:
        call.out.line(f"ptb-tui {__version__} (Python {sys.version.split()[0]})")
    return 0


app.add_typer(runs, name="runs", help="List runs; show, tail, cancel, retry, judge, eval … one of them.")


def _this_command() -> str:
    program = ["python", "-m", "ptb_tui"] if sys.argv[0].endswith("__main__.py") else ["ptb-tui"]
    return shlex.join([*program, *_ARGV])


_ARGV: list[str] = []


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (design §9). No exception leaves, no traceback is shown."""
    from ptb_tui.present.failure import guarded

    _ARGV[:] = sys.argv[1:] if argv is None else argv
    return guarded(
        lambda: app(list(_ARGV), prog_name="ptb-tui", standalone_mode=False), _UsageMistake, "--json" in _ARGV
    )
