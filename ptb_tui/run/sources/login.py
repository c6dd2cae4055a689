"""The login an agent runs with (design §5, Secrets)."""

from __future__ import annotations

from ptb_tui.core.spec import Problem
from ptb_tui.run.sources import Look, Provision, Ready


def problems(look: Look) -> list[Problem]:
    """What stands in the way of this run at this site."""
    return []


def provide(look: Look, ready: Ready) -> Provision:
    """What the sandbox gets."""
    return Provision()
