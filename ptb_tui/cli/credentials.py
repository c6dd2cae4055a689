"""Verbs about credentials: how they stand, logging in, and what a person mends."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ptb_tui.cli.call import Call, group, leads, verb
from ptb_tui.core.errors import UsageError

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="A login, for example codex.")]

credentials = group("credentials", "Show logins and keys of a site; log in, release, restore.")


@leads(credentials)
async def list_credentials(call: Call) -> int:
    """Show every login and key: how it stands, who uses it, until when, which limit it met; or the verb below."""
    from ptb_tui.core.credential import CredentialsQuery
    from ptb_tui.present.credentials import credential_list

    await call.show(CredentialsQuery(), credential_list)
    return 0


@verb(credentials)
async def login(call: Call, name: Name) -> int:
    """Log in with the vendor's own command. It runs here; what it leaves is kept for the site's runs."""
    import asyncio
    import signal
    import sys

    import ptb_tui

    where = call.common.site or "local"
    if where != "local" and call.settings().site(where).transport != "local":
        raise UsageError(
            f"a login needs the terminal of the site {where}, and nothing of it may cross the wire",
            hint=f"log in there yourself, for example: ssh -t HOST ptb-tui credentials login {name}",
        )
    entry = str(Path(ptb_tui.__file__).with_name("__main__.py"))
    # A program of its own, because the vendor's command wants the terminal and its signals for itself.
    signal.signal(signal.SIGINT, lambda *_: None)
    process = await asyncio.create_subprocess_exec(sys.executable, "-I", entry, "sign-in", name)
    return await process.wait()


@verb(credentials)
async def release(call: Call, name: Name) -> int:
    """Give a login free that a run is said to have, when that run's machine or results are gone."""
    from ptb_tui.core.action import CredentialRelease

    return await call.do("", lambda _: CredentialRelease(name=name))


@verb(credentials)
async def restore(call: Call, name: Name) -> int:
    """Put the file back that was a login's before what a run brought back, or before the last `login`."""
    from ptb_tui.core.action import CredentialRestore

    return await call.do("", lambda _: CredentialRestore(name=name))
