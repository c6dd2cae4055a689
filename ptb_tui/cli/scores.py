"""Verbs about scores."""

from __future__ import annotations

from ptb_tui.cli.call import Call, app, verb
from ptb_tui.cli.runs import runs
from ptb_tui.present.arguments import Policy, Protocol, one_of


@verb(app, runs)
async def collect(call: Call, protocol: Protocol = "", policy: Policy = "finished") -> int:
    """Write the score tables below the results root. They are computed from what is there now."""
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
