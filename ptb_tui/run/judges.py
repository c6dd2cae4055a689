"""What judges of engine `codex` need from a site: their CLI in the version they name, a key or a login, a sandbox.

Logins are looked at by `run.sources.login`; a judge that cannot run is said when the run is planned, and never
replaced by another (design §5).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ptb_tui.content.judges import load_judge
from ptb_tui.content.lookup import Content
from ptb_tui.core.errors import ConfigError, PtbError, StepError
from ptb_tui.core.keys import KeyPolicy, policy
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import Problem
from ptb_tui.core.verdict import JudgeSpec
from ptb_tui.run.sandboxes import for_run
from ptb_tui.run.site_words import cli_store
from ptb_tui.run.sources import Look
from ptb_tui.run.sources.cli import declared
from ptb_tui.sandbox.egress import rule
from ptb_tui.supplies.clis import Cli
from ptb_tui.supplies.store import Installed, Store

ENGINES = ("codex", "rules")  # what this version can run
CLI = "codex"
KEY = "CODEX_API_KEY"
_LOOPBACK = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True)
class Tool:
    """The CLI of a judge: what is declared about it, the version, and its tree in the store."""

    cli: Cli
    version: Installed
    tree: Path


def key_policy(spec: JudgeSpec) -> KeyPolicy:
    """The keys a judge's sandbox gets: one, when the judge works with a key and not with a login."""
    return policy(() if spec.credential.is_login else (KEY,), (), {})


def tool_of(spec: JudgeSpec, root: Root, content: Content, settings: Settings) -> Tool:
    """The CLI in the version that `judge.toml` names, or the site's when it names none. StepError(cause="cli_missing").

    The site's pins are for agents: which version judges is a matter of the judge.
    """
    cli, store = declared(content, CLI), Store(cli_store(root, settings))
    wanted = spec.cli_version
    found = store.find(CLI, wanted) if wanted else store.current(CLI)
    if found is None:
        words = f"{CLI} {wanted} for the judges is not in the store" if wanted else f"{CLI} is not in the store"
        remedy = f"ptb-tui agents update {CLI}" + (f" --version {wanted} --keep" if wanted else "")
        raise StepError(words, cause="cli_missing", hint=remedy)
    return Tool(cli, found, store.tree(found))


def hosts(spec: JudgeSpec) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """(rules of the gateway, ports of the host's loopback that are shown inside). ConfigError for what is no rule."""
    if not spec.endpoint:
        for text in spec.hosts:
            rule(text)
        return spec.hosts, ()
    try:
        parts = urlsplit(spec.endpoint)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ConfigError(f"endpoint {spec.endpoint!r} of judge.toml has a port that is none") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ConfigError(f"endpoint {spec.endpoint!r} of judge.toml is no URL http://HOST[:PORT][/PATH] or https://…")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    rule(f"{host}:{port}")
    return (f"{host}:{port}",), (port,) if parts.hostname in _LOOPBACK else ()


def problems(look: Look, configured: str = "auto") -> list[Problem]:
    """What stands in the way of the judges of a run, logins excepted; each thing once."""
    found: dict[str, Problem] = {}

    def add(words: str, remedy: str) -> None:
        found.setdefault(words, Problem(words=words, remedy=remedy))

    named = [plan.judge for plan in look.spec.judges if plan.engine == CLI]
    if named:
        sandbox = for_run(look.root, look.spec, look.content, configured, "judge")
        if not sandbox.isolated:
            words = f"judges of engine {CLI} need a sandbox: what they read can lead them to do anything"
            add(words, 'a sandbox that isolates, or [judging] engine = "rules"')
    for name in named:
        try:
            spec = load_judge(look.content, name).spec
            tool_of(spec, look.root, look.content, look.settings)
            hosts(spec)
        except PtbError as error:
            add(error.message, error.hint or f"judges/{name}/judge.toml")
            continue
        for key in key_policy(spec).missing(look.settings.values):
            add(f"for the judges, {key} has no value", f"put OPENAI_API_KEY=… into {look.settings.env_file or '.env'}")
    return list(found.values())
