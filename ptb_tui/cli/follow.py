"""Work that goes on at a site, watched from a command line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ptb_tui.core.clock import utc_text
from ptb_tui.core.errors import Detached, PtbError, from_wire
from ptb_tui.core.supply import WorkQuery
from ptb_tui.present.work import choose

if TYPE_CHECKING:
    from ptb_tui.present.output import Output
    from ptb_tui.site.api import Site

_INTERVAL_S = 0.3


async def follow(site: Site, number: int, out: Output) -> int:
    """Show a piece of work until it ends; 0 when it is done. A PtbError of the work is raised as it was there.

    Leaving early (Ctrl-C) stops nothing.
    """
    show, offset = choose(out), 0
    try:
        while True:
            view = await site.ask(WorkQuery(work=number, offset=offset))
            offset = view.next
            show.look(view)
            if view.state != "running" and not view.log:
                break
            if not view.log:
                await asyncio.sleep(_INTERVAL_S)
    except asyncio.CancelledError:
        raise Detached(
            "interrupted", hint=f"work {number} goes on at the site; the same command shows it again"
        ) from None
    finally:
        show.close()
    if out.as_json:
        out.record({"event": "work_ended", "t": utc_text(), "work": view.model_dump(mode="json", exclude={"log"})})
    if view.state == "done":
        if not out.as_json:
            out.line(view.words)
        return 0
    if view.error:
        raise from_wire(view.error)
    raise PtbError(f"work {number} has no end: its process is gone", hint="ask for it again; what is there is kept")
