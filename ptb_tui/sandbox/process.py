"""No sandbox: the command runs as the operator, sees everything the operator sees, and says so in its notes.

Only for trusted agents of the demo protocol, or where the site's configuration names it (`select`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ptb_tui.sandbox.base import SYSTEM_PATH, Command, Request, check


class Process:
    """Runs commands unchanged; the home keeps its host path.

    Killing the process group of the command kills what stayed in the group; a child that left it survives.
    """

    name = "process"
    isolated = False
    runtime = ""

    def home_inside(self, home: Path) -> str:
        """The host path itself."""
        return str(home)

    def path(self) -> tuple[str, ...]:
        """The interpreter that runs us is visible inside, and the programs of the system."""
        return (os.path.dirname(sys.executable), *SYSTEM_PATH)

    def python(self) -> str:
        """The interpreter that runs us."""
        return sys.executable

    def command(self, request: Request) -> Command:
        """The same argv in the same environment; what could not be kept is in the notes. StepError as `check`."""
        check(request)
        notes = ["no isolation: the command runs as the operator and sees the operator's files and processes"]
        if request.network != "full":
            notes.append(f"network {request.network} was asked, but a plain process has the whole network")
        notes += [f"not mounted without a sandbox: {bind.target} (is {bind.source})" for bind in request.binds]
        if request.tmp is not None:
            notes.append(f"/tmp is the host's, not {request.tmp}")
        # No process limit: outside a user namespace it counts all processes of the operator on this machine.
        return Command(request.argv, dict(request.env), request.home / request.workdir, {}, tuple(notes))

    def probe(self) -> tuple[bool, str]:
        """Always works, which says nothing about whether it may be used."""
        return True, "no isolation"
