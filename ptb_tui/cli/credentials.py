"""Verbs about credentials: how they stand, and logging in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ptb_tui.cli.call import Call, group, leads, verb
from ptb_tui.core.errors import UsageError

credentials = group("credentials", "Show logins and keys of a site; log in.")


@leads(credentials)
async def list_credentials(call: Call) -> int:
    """Show every login and key: how it stands, who uses it, until when, which limit it met; or the verb below."""
    from ptb_tui.core.credential import CredentialsQuery
    from ptb_tui.present.credentials import credential_list

    await call.show(CredentialsQuery(), credential_list)
    return 0


@verb(credentials)
async def login(
    call: Call, name: Annotated[str, typer.Argument(metavar="NAME", help="A login, for example codex.")]
) -> int:
    """Run the vendor's own login on this machine and keep what comes out for the site's runs."""
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
