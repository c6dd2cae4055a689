"""The command line: `main` reads it, the modules beside this one hold the verbs by what they are about."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ptb_tui.cli import (
    agents,
    baseline,
    benchmark,
    containers,
    credentials,
    data,
    evaluating,
    judging,
    place,
    runs,
    scores,
    triage,
    verdicts,
)
from ptb_tui.cli import call as calls
from ptb_tui.cli.call import Call, app, leads
from ptb_tui.core.errors import UsageError
from ptb_tui.present.arguments import Common

__all__ = [
    "agents",
    "app",
    "baseline",
    "benchmark",
    "containers",
    "credentials",
    "data",
    "evaluating",
    "judging",
    "main",
    "place",
    "runs",
    "scores",
    "triage",
    "verdicts",
]

_UsageMistake: type[Exception] = typer.BadParameter.__mro__[2]  # typer's own base of all mistakes on a command line


def _no_verb(common: Common, values: dict[str, Any]) -> bool:
    """What `ptb-tui` alone does: the console's place; until there is one, the help. False where --batch is given."""
    if values["batch"] is not None:
        return False
    if any(values.values()):
        raise UsageError("--dry-run and --timeout belong to --batch FILE", hint="ptb-tui --batch sweeps/demo.toml")
    typer.echo(typer.main.get_command(app).get_help(typer.Context(typer.main.get_command(app), info_name="ptb-tui")))
    return True


@leads(app, _no_verb)
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
    options = Options(calls.this_command(), dry_run, call.common.yes, timeout, call.settings().operator)
    async with call.site() as (site, _):
        return await run_batch(site, sweep, options, call.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (design §9). No exception leaves, no traceback is shown."""
    from ptb_tui.present.failure import guarded

    calls.ARGV[:] = sys.argv[1:] if argv is None else argv
    return guarded(
        lambda: app(list(calls.ARGV), prog_name="ptb-tui", standalone_mode=False), _UsageMistake, "--json" in calls.ARGV
    )
