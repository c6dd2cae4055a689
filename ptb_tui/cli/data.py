"""Verbs about models, data sets and the items of tasks."""

from __future__ import annotations

import os
from typing import Annotated, TypeAlias

import typer

from ptb_tui.cli.call import Call, Detach, group, leads, verb

Only = Annotated[str, typer.Option("--only", metavar="P", help="An id, or a pattern such as 'Qwen/*'.")]
Tasks: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="[TASK]...", help="Without any: all tasks.")]

data = group("data", "Show and fetch models, data sets and the items of tasks.")


@leads(data)
async def overview(call: Call) -> int:
    """Show which tasks have their items, and what of the hub is cached."""
    return await status(call)


@verb(data)
async def status(call: Call, tasks: Tasks = None, only: Only = "") -> int:
    """Show which tasks have their items, and what of the hub is cached. With TASK: that task, every file and source."""
    from ptb_tui.core.query import DataQuery
    from ptb_tui.present.supplies import data as show

    if tasks:
        await call.show(DataQuery(what="tasks", tasks=tuple(tasks)), show)
    else:
        await call.show(DataQuery(what="hub" if only else "both", only=only), show)
    return 0


@verb(data)
async def fetch(
    call: Call,
    tasks: Tasks = None,
    given: Annotated[
        str, typer.Option("--from", metavar="DIR", help="Take files of this folder instead of the network's.")
    ] = "",
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Fetch again; take newer revisions where data.toml pins none.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask how much it is, fetch nothing.")] = False,
    detach: Detach = False,
) -> int:
    """Fetch the test items of tasks: download, compare with data.toml and the lock, and write what evaluations read.

    Goes on where it was interrupted. Gated data sets need a token of an account that accepted their terms: HF_TOKEN
    or MY_HF_TOKEN in .env.
    """
    from ptb_tui.core.action import FetchData
    from ptb_tui.core.query import DataQuery
    from ptb_tui.present.supplies import data as show

    names = tuple(tasks or ())
    if dry_run:
        await call.show(DataQuery(what="tasks", tasks=names, ask=not given), show)
        return 0
    folder = os.path.abspath(os.path.expanduser(given)) if given and (call.common.site or "local") == "local" else given
    return await call.work(lambda: FetchData(tasks=names, refresh=refresh, given=folder), detach=detach)


@verb(data)
async def cache(
    call: Call,
    only: Only = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask the hub how much it is, fetch nothing.")] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Also look for newer commits of what is here.")] = False,
    detach: Detach = False,
) -> int:
    """Fetch models and data sets into the site's cache. Goes on where it was interrupted."""
    from ptb_tui.core.action import CacheHub
    from ptb_tui.core.query import DataQuery
    from ptb_tui.present.supplies import data as show

    if dry_run:
        await call.show(DataQuery(only=only, ask=True), show)
        return 0
    return await call.work(lambda: CacheHub(only=only, refresh=refresh), detach=detach)
