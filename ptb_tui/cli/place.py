"""Verbs about the place: doctor, version."""

from __future__ import annotations

import sys

from ptb_tui.cli.call import Call, app, verb
from ptb_tui.cli.runs import runs


@verb(app, runs)
async def doctor(call: Call) -> int:
    """Look for everything that could stand in the way. Exits 1 when something does."""
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
