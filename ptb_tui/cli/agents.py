"""Verbs about agents and the CLIs they start."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from ptb_tui.cli.call import Call, Detach, group, leads, verb
from ptb_tui.core.errors import UsageError

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="A CLI, or an agent; a CLI of that name first.")]

agents = group("agents", "List agents and their CLIs; update, pin or roll back a CLI.")


@leads(agents)
async def list_agents(
    call: Call,
    check: Annotated[bool, typer.Option("--check", help="Ask npm which versions are the newest.")] = False,
) -> int:
    """List agents with the CLI that their next run gets; or one of the verbs below."""
    from ptb_tui.core.query import AgentsQuery
    from ptb_tui.present.agents import agent_list

    await call.show(AgentsQuery(ask=check), agent_list)
    return 0


@verb(agents)
async def update(
    call: Call,
    name: Name,
    version: Annotated[str, typer.Option("--version", metavar="V", help="This one instead of the newest.")] = "",
    keep: Annotated[bool, typer.Option("--keep", help="Leave current what is; for a pin, or for judges.")] = False,
    detach: Detach = False,
) -> int:
    """Get a version of a CLI and make it current. The Node that runs it comes too; what does not start is not taken."""
    from ptb_tui.core.action import AgentUpdate

    return await call.work(lambda: AgentUpdate(name=name, version=version, keep=keep), detach=detach)


@verb(agents)
async def pin(
    call: Call,
    name: Name,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="One that is in the store.")] = "",
    clear: Annotated[bool, typer.Option("--clear", help="Take the pin away.")] = False,
) -> int:
    """Pin a version. The next runs of all agents on a CLI, or of one agent, get it."""
    from ptb_tui.core.action import AgentPin

    if clear == bool(version):
        raise UsageError("either VERSION or --clear is needed", hint=f"ptb-tui agents pin {name} VERSION")
    return await call.do("", lambda _: AgentPin(name=name, version=version))


@verb(agents)
async def rollback(call: Call, name: Name) -> int:
    """Make the version of a CLI current that was current before."""
    from ptb_tui.core.action import AgentRollback

    return await call.do("", lambda _: AgentRollback(name=name))
