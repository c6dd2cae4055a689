"""The agent's CLI, from the site's versioned store (design §3, supplies; H §2.3).

`cli_updates = "store"`: the run gets a version of the store, read-only and first in PATH, and keeps it whatever is
updated meanwhile; nothing is downloaded. Where the store has none, what the sandbox finds itself is used and recorded
as unpinned. `cli_updates = "at-start"`: `solve.sh` installs the newest version when the agent starts, as the original
did, unless POST_TRAIN_BENCH_SKIP_CLI_UPDATE says no.
"""

from __future__ import annotations

import shutil
from typing import Any

from ptb_tui.content.lookup import Content
from ptb_tui.content.reading import read_toml
from ptb_tui.core import clock
from ptb_tui.core.errors import ContentError, PtbError, StepError
from ptb_tui.core.spec import Problem
from ptb_tui.run.sandboxes import for_run
from ptb_tui.run.site_words import cli_store, site_word
from ptb_tui.run.sources import Look, Provision, Ready
from ptb_tui.sandbox.base import Bind, Sandbox
from ptb_tui.supplies.clis import Cli, CliTable
from ptb_tui.supplies.store import Choice, Store

TARGET = "/opt/ptb/cli"
TABLE = "containers/clis.toml"
SKIP = "POST_TRAIN_BENCH_SKIP_CLI_UPDATE"
_OF_THE_HOST = ("bubblewrap", "process")  # sandboxes that show the programs of this machine


def table(content: Content) -> CliTable:
    """The CLIs that are declared. ContentError."""
    path = content.file(TABLE)
    if path is None:
        raise ContentError(f"{TABLE} is in no content folder")
    return read_toml(path, CliTable, {"cli": Cli})


def declared(content: Content, name: str) -> Cli:
    """One CLI. ContentError names those that are known."""
    known = table(content).cli
    if name not in known:
        raise ContentError(f"the CLI {name!r} is not in {TABLE}; there are: {', '.join(known) or 'none'}")
    return known[name]


def choice(look: Look, cli: Cli) -> Choice:
    """What the store has for this run."""
    asked = look.settings.values.get(cli.pin_variable, "")
    return Store(cli_store(look.root, look.settings)).choose(look.agent.cli, look.agent.name, asked)


def problems(look: Look) -> list[Problem]:
    """A CLI that this run would not have, or would have in a version that nobody chose."""
    name = look.agent.cli
    if not name:
        return []
    cli = declared(look.content, name)
    if site_word(look.root, look.settings, "cli_updates") == "at-start":
        if look.spec.network == "none":
            words = f"{name} is updated when the agent starts, but runs of this protocol have no network"
            return [Problem(words=words, remedy='cli_updates = "store" for the site', blocks=False)]
        return []
    found = choice(look, cli)
    if found.found is not None:
        return []
    remedy = f"ptb-tui agents update {name}"
    if found.wanted:
        words = f"{name} {found.wanted} is {found.why}, but it is not in the store"
        return [Problem(words=words, remedy=f"{remedy} --version {found.wanted}")]
    try:
        sandbox = for_run(look.root, look.spec, look.content)
    except PtbError:
        return []  # said by whoever plans
    if sandbox.name not in _OF_THE_HOST:
        words = f"{name} is not in the store: runs use what their image holds, in whatever version"
    elif there := _on_host(cli, sandbox):
        words = f"{name} is not in the store: runs use {there}, unpinned"
    else:
        return [Problem(words=f"the CLI {name} of agent {look.agent.name} is not in the store", remedy=remedy)]
    return [Problem(words=words, remedy=remedy, blocks=False)]


def provide(look: Look, ready: Ready) -> Provision:
    """The CLI's folder, read-only and first in PATH, and what is recorded about it. StepError(cause="cli_missing")."""
    name = look.agent.cli
    if not name:
        return Provision(facts={"cli": "", "from": "the agent"})
    cli = declared(look.content, name)
    facts: dict[str, Any] = {"cli": name, "binary": cli.binary, "source": cli.package or cli.installer}
    values = look.settings.values
    if site_word(look.root, look.settings, "cli_updates") == "at-start":
        env = {"PTB_CLI_UPDATES": "at-start"}
        env |= {key: values[key] for key in (SKIP, cli.pin_variable) if values.get(key)}
        env |= {"PTB_CLI_INSTALLER": cli.installer} if cli.installer else {}
        return Provision(env=env, facts={**facts, "from": "at-start", "requested": values.get(cli.pin_variable, "")})
    found = choice(look, cli)
    if found.found is None and found.wanted:
        words = f"{name} {found.wanted} is {found.why}, but it is not in the store"
        raise StepError(words, cause="cli_missing", hint=f"ptb-tui agents update {name} --version {found.wanted}")
    if found.found is None:
        there = _on_host(cli, ready.sandbox) if ready.sandbox.name in _OF_THE_HOST else ""
        note = f"CLI {name}: unpinned, {there or 'whatever the image holds'}; it is not in the store"
        return Provision(env=cli.env, notes=(note,), facts={**facts, "from": "unpinned", "path": there})
    store = Store(cli_store(look.root, look.settings))
    version, tree = found.found, store.tree(found.found)
    seen = TARGET if ready.sandbox.isolated else str(tree)
    facts |= {
        "from": "store",
        "why": found.why,
        "version": version.version,
        "said": version.said,
        "digest": version.digest,
        "node": version.node,
        "path": f"{seen}/bin/{cli.binary}",
        "recorded_at": clock.utc_text(),
    }
    return Provision(
        binds=(Bind(tree, TARGET),),
        env={**cli.env, "PTB_CLI_STORE": version.digest},
        path=(f"{seen}/bin",),
        notes=(f"CLI {name} {version.version} from the store, digest {version.digest[:12]}, {found.why}",),
        facts=facts,
    )


def _on_host(cli: Cli, sandbox: Sandbox) -> str:
    """Where the sandbox finds the CLI by itself, empty for nowhere."""
    return shutil.which(cli.binary, path=":".join(sandbox.path())) or ""
