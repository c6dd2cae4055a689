"""Verbs about container images."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ptb_tui.cli.call import Call, Detach, group, leads, verb

Root = Annotated[Path | None, typer.Option("--from", metavar="DIR", help="Pack this root folder instead of a recipe.")]

container = group("container", "Build container images and list them.")


@leads(container)
async def list_images(call: Call) -> int:
    """List recipes and images."""
    from ptb_tui.core.query import ImagesQuery
    from ptb_tui.present.supplies import image_list

    await call.show(ImagesQuery(), image_list)
    return 0


@verb(container, name="list")
async def container_list(call: Call) -> int:
    """List recipes and images."""
    return await list_images(call)


@verb(container)
async def status(call: Call) -> int:
    """Show every image file. Says which one is current, and whether its recipe has changed since."""
    from ptb_tui.core.query import ImagesQuery
    from ptb_tui.present.supplies import image_status

    await call.show(ImagesQuery(), image_status)
    return 0


@verb(container)
async def build(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of `container list`, or yours with --from.")],
    root: Root = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the definition, build nothing.")] = False,
    detach: Detach = False,
) -> int:
    """Build an image and make it current; older ones stay."""
    from ptb_tui.core.action import BuildImage
    from ptb_tui.core.query import ImagesQuery
    from ptb_tui.present.supplies import definition

    local = root is not None and (call.common.site or "local") == "local"
    folder = os.path.abspath(root) if local and root else str(root or "")
    if dry_run:
        await call.show(ImagesQuery(recipe=name, root=folder), definition)
        return 0
    return await call.work(lambda: BuildImage(name=name, root=folder), detach=detach)
