"""Verbs about the benchmark itself: prompts, protocols, and what differs between two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ptb_tui.cli.call import Call, app, group, leads, verb
from ptb_tui.core.errors import UsageError

SIDE = "A run, a fingerprint, or the name of a protocol: as it is now."

protocol = group("protocol", "Show protocols, and what differs between two fingerprints.")


@verb(app)
async def prompt(
    call: Call,
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A sweep file (its first cell), or a run.")],
    agent: Annotated[str, typer.Option("--agent", metavar="A", help="The cell of this agent.")] = "",
    config: Annotated[str, typer.Option("--config", metavar="C", help="The cell of this config.")] = "",
    task: Annotated[str, typer.Option("--task", metavar="T", help="The cell of this task.")] = "",
    model: Annotated[str, typer.Option("--model", metavar="M", help="The cell of this base model.")] = "",
) -> int:
    """Print the prompt that an agent gets: exactly, and nothing else on stdout."""
    from ptb_tui.core.benchmark import PromptQuery
    from ptb_tui.core.spec import read_sweep
    from ptb_tui.present.benchmark import prompt as show

    chosen = {"agent": agent, "config": config, "task": task, "model": model}
    if spec.endswith(".toml") or (Path(spec).is_file() and not spec.isdigit()):
        await call.show(PromptQuery(sweep=read_sweep(Path(spec)), **chosen), show)
        return 0
    if any(chosen.values()):
        raise UsageError("--agent, --config, --task and --model choose a cell of a sweep file; a run is one cell")
    await call.show(PromptQuery(run=spec), show, spec)
    return 0


@leads(protocol)
async def overview(call: Call) -> int:
    """List the protocols, with where each comes from and its fingerprint."""
    from ptb_tui.core.benchmark import ProtocolsQuery
    from ptb_tui.present.benchmark import protocols as show

    await call.show(ProtocolsQuery(), show)
    return 0


@verb(protocol)
async def diff(
    call: Call,
    before: Annotated[str, typer.Argument(metavar="A", help=SIDE)],
    after: Annotated[str, typer.Argument(metavar="B", help="Likewise.")],
    text: Annotated[bool, typer.Option("--text", help="Also the lines that differ, where they can be read.")] = False,
) -> int:
    """Show which files differ between two fingerprints. Exit code 1 when any does."""
    from ptb_tui.core.benchmark import DiffQuery
    from ptb_tui.present.benchmark import diff as show

    answer = await call.show(DiffQuery(before=before, after=after, text=text), show)
    return int(answer.before.fingerprint != answer.after.fingerprint)
