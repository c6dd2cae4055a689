"""Verbs about models and data."""

from __future__ import annotations

from typing import Annotated

import typer

from ptb_tui.cli.call import Call, Detach, group, leads, verb

Only = Annotated[str, typer.Option("--only", metavar="P", help="An id, or a pattern such as 'Qwen/*'.")]

data = group("data", "Show and fetch models and data sets that runs need.")


@leads(data)
async def overview(call: Call, only: Only = "") -> int:
    """Show what of the hub is cached."""
    return await status(call, only)


@verb(data)
async def status(call: Call, only: Only = "") -> int:
    """Show what of the hub is cached."""
    from ptb_tui.core.query import DataQuery
    from ptb_tui.present.supplies import data as show

    await call.show(DataQuery(only=only), show)
    return 0


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
