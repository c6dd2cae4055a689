"""Internal verb `sign-in NAME`: the vendor's own way to log in, on the site, with the terminal attached (design §5).

The vendor's command runs in a home of its own, which is removed afterwards, so that it neither sees nor changes the
operator's own login. What it leaves becomes the site's login, for the runs to come and those under way.
"""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ptb_tui.content.lookup import Content
from ptb_tui.core import files, settings
from ptb_tui.core.credential import CredentialUse
from ptb_tui.core.errors import ConfigError, Detached, NotAllowed, PtbError, UsageError
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import Settings, config_home
from ptb_tui.run.site_words import cli_store
from ptb_tui.site.credentials import use_of
from ptb_tui.supplies import credentials, leases
from ptb_tui.supplies.logins import MAX_LOGIN, Login, read_login
from ptb_tui.supplies.store import Store

LOCK_PATIENCE_S = 120.0
LOCK_WAIT_S = 130.0
# What would lead the vendor's command to the operator's own login, or give it a key in place of one.
_NOT_PASSED = ("CODEX_", "CLAUDE_", "ANTHROPIC_", "OPENAI_", "CURSOR_", "GROK_", "XAI_", "XDG_")


def environment(home: Path, environ: dict[str, str], path: str) -> dict[str, str]:
    """The environment of the vendor's command: another home, no login, no key of the operator's."""
    kept = {
        name: value
        for name, value in environ.items()
        if not settings.is_secret(name) and not name.startswith((*_NOT_PASSED, "POST_TRAIN_BENCH_"))
    }
    return {**kept, "HOME": str(home), "PATH": path}


def program(use: CredentialUse, found: Settings, path: str) -> tuple[list[str], str]:
    """The command and its search path: the site's store of CLIs, then PATH. ConfigError when it is not installed."""
    if not use.login:
        raise UsageError(f"nothing says how the login {use.name} is obtained", hint="`login` in [credential]")
    wanted = use.login[0]
    try:
        store = Store(cli_store(Root(found.results), found))
        if (chosen := store.choose(wanted).found) is not None:
            path = f"{store.tree(chosen) / 'bin'}{os.pathsep}{path}"
    except (PtbError, OSError):
        pass  # no results root, or no store yet: then PATH alone
    executable = shutil.which(wanted, path=path)
    if executable is None:
        raise ConfigError(
            f"{wanted} is not installed here, and the login {use.name} comes from `{shlex.join(use.login)}`",
            hint=f"ptb-tui agents update {wanted}",
        )
    return [executable, *use.login[1:]], path


def obtain(use: CredentialUse, argv: list[str], home: Path, path: str) -> bytes:
    """Run the vendor's command in `home` and return the login file it left. NotAllowed when it left none."""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the command's; ignored, it would not get it
    try:
        done = subprocess.run(argv, cwd=home, env=environment(home, dict(os.environ), path), check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    data = files.read_bytes(home / use.file, MAX_LOGIN)
    if data is None and use.kind == "static_token" and done.returncode == 0:
        data = _pasted(use)
    if done.returncode == -signal.SIGINT or done.returncode == 130:
        raise Detached("interrupted; the login that was there stays")
    if done.returncode != 0:
        raise NotAllowed(f"{argv[0]} ended with status {done.returncode}; the login that was there stays")
    if read_login(data) is None or data is None:
        raise NotAllowed(f"{argv[0]} left no login in ~/{use.file}; the login that was there stays")
    return data


def _pasted(use: CredentialUse) -> bytes:
    """Some commands print a token instead of keeping it."""
    words = f"Paste the token that {use.login[0]} printed (it is not shown): "
    text = getpass.getpass(words) if sys.stdin.isatty() else sys.stdin.readline()
    return text.strip().encode()


def keep(use: CredentialUse, data: bytes, place: Path) -> Login:
    """Put a login in its place, under its lock, so that no renewal writes over it."""
    login = read_login(data)
    assert login is not None
    stem = credentials.state_stem(config_home(), place)
    if use.exclusive:
        held = leases.Lease(stem).look()
        if not held.free:
            print(f"note: run {held.owner.get('run')} still has the former login of {use.name}", file=sys.stderr)
        credentials.keep(config_home(), place, data)
        return login
    with leases.held(stem, LOCK_PATIENCE_S, LOCK_WAIT_S) as lease:
        if lease is None:
            raise NotAllowed(f"the login {use.name} is being renewed; try again")
        credentials.keep(config_home(), place, data)
    return login


def sign_in(name: str) -> str:
    """The whole of it; returns words for people. PtbError; the login that was there stays unless a new one is whole."""
    found = settings.load()
    use = use_of(Content.configured(found), name)
    command, path = program(use, found, os.environ.get("PATH", os.defpath))
    base = credentials.store(config_home())
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(base, 0o700)
    home = Path(tempfile.mkdtemp(prefix=".login-", dir=base))
    try:
        (home / use.file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = obtain(use, command, home, path)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    place = credentials.own_place(config_home(), use)
    login = keep(use, data, place)
    who = f" of account {login.account}" if login.account else ""
    until = f"; the access token ends {credentials.when(login.expires)}" if login.expires else ""
    return f"login {name}{who} kept in {place}{until}"


def main(argv: Sequence[str]) -> int:
    """Internal verb; errors in words on stderr and the exit code of their kind."""
    from ptb_tui.core.text import sanitize

    try:
        if len(argv) != 1:
            raise UsageError("sign-in takes the name of a login")
        print(sanitize(sign_in(argv[0]), limit=500), flush=True)
    except PtbError as error:
        print(f"{error.title}: {error.message}{f' ({error.hint})' if error.hint else ''}", file=sys.stderr, flush=True)
        return error.exit_code
    except KeyboardInterrupt:
        return Detached.exit_code
    except OSError as error:
        print(f"sign-in: {error}", file=sys.stderr, flush=True)
        return 2
    return 0
