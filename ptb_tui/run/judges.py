"""What judges need from a site. Of engine `codex`: their CLI in the version they name, a key or a login, a sandbox; of
`openai_api`: an endpoint, its key, the package `openai`, a sandbox for the tools.

Logins are looked at by `run.sources.login`; a judge that cannot run is said when the run is planned, and never
replaced by another (design §5).
"""

from __future__ import annotations

import http.client
import importlib.util
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ptb_tui.content.judges import for_seat, load_judge
from ptb_tui.content.lookup import Content
from ptb_tui.core import clock
from ptb_tui.core.errors import ConfigError, PtbError, StepError
from ptb_tui.core.keys import KeyPolicy, policy
from ptb_tui.core.layout import Root
from ptb_tui.core.panel import Seat, key_of
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import Problem
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import JudgeSpec
from ptb_tui.run.sandboxes import for_run
from ptb_tui.run.site_words import cli_store
from ptb_tui.run.sources import Look
from ptb_tui.run.sources.cli import declared
from ptb_tui.sandbox.egress import rule
from ptb_tui.supplies.clis import Cli
from ptb_tui.supplies.store import Installed, Store

ENGINES = ("codex", "openai_api", "rules")  # what this version can run
CLI = "codex"
API = "openai_api"  # also its name in [endpoints]
KEY = "CODEX_API_KEY"
# Causes that are ours or the provider's: whoever is asked next fares no better.
HOPELESS = ("cli_missing", "content_changed", "credential", "image_missing", "provider_limit", "sandbox")
_LOOPBACK = ("127.0.0.1", "localhost")
LOOK_S = 3.0
LOOKED_S = 60.0
_LOOKED: dict[tuple[str, str], tuple[float, str]] = {}


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
        raise ConfigError(f"endpoint {spec.endpoint!r} of the judges has a port that is none") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ConfigError(f"endpoint {spec.endpoint!r} of the judges is no URL http://HOST[:PORT][/PATH] or https://…")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    rule(f"{host}:{port}")
    return (f"{host}:{port}",), (port,) if parts.hostname in _LOOPBACK else ()


def check_api(seat: Seat) -> None:
    """ConfigError for an endpoint of engine `openai_api` that is none."""
    hosts(JudgeSpec(label="", output_id="x", order=0, flags=("x",), endpoint=seat.endpoint))


def api_key(seat: Seat, settings: Settings) -> tuple[str, str]:
    """(name, value) of the key that a seat of engine `openai_api` works with. StepError(cause="credential") without a
    value that is needed."""
    name, needed = key_of(seat)
    value = settings.values.get(name, "")
    if needed and not value:
        words = f"{name} has no value, and the judges work with it at {urlsplit(seat.endpoint).netloc}"
        raise StepError(words, cause="credential", hint=f"put {name}=… into {settings.env_file or '.env'}")
    return name, value


def problems(look: Look, configured: str = "auto") -> list[Problem]:
    """What stands in the way of the judges of a run, logins excepted; each thing once."""
    found: dict[str, Problem] = {}

    def add(words: str, remedy: str, *, blocks: bool = True) -> None:
        found.setdefault(words, Problem(words=words, remedy=remedy, blocks=blocks))

    for engine in sorted({engine for plan in look.spec.judges for engine in plan.engines} - {"rules"}):
        sandbox = for_run(look.root, look.spec, look.content, configured, "judge")
        if not sandbox.isolated:
            words = f"judges of engine {engine} need a sandbox: what they read was written by who is judged"
            add(words, 'a sandbox that isolates, or [judging] engine = "rules"')
    for plan in look.spec.judges:
        for seat in dict.fromkeys(plan.asked):
            try:
                if seat.engine == "codex":
                    _codex_problems(look, for_seat(load_judge(look.content, plan.judge).spec, seat), add)
                elif seat.engine == "openai_api":
                    _api_problems(look, seat, add)
            except PtbError as error:
                add(error.message, error.hint or f"judges/{plan.judge}/judge.toml")
    return list(found.values())


def _codex_problems(look: Look, spec: JudgeSpec, add: Callable[..., None]) -> None:
    tool_of(spec, look.root, look.content, look.settings)
    hosts(spec)
    for key in key_policy(spec).missing(look.settings.values):
        add(f"for the judges, {key} has no value", f"put OPENAI_API_KEY=… into {look.settings.env_file or '.env'}")


def _api_problems(look: Look, seat: Seat, add: Callable[..., None]) -> None:
    check_api(seat)
    parts = urlsplit(seat.endpoint)
    if importlib.util.find_spec("openai") is None:
        words = f"judges of engine openai_api need the package `openai`, which {sys.executable} does not have"
        add(words, f"{sys.executable} -m pip install openai")
    name, value = api_key(seat, look.settings)
    if value and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        words = f"{name} crosses the network unencrypted on its way to the judges' endpoint {parts.netloc}"
        add(words, "https://, or a server on this machine", blocks=False)
    if words := reaches(seat.endpoint, value):
        add(f"the judges' endpoint {parts.netloc} {words}", "asking may work all the same", blocks=False)


def reaches(endpoint: str, key: str) -> str:
    """What speaks against an endpoint that a person named, in words; "" for nothing. Never more than a warning: servers
    answer questions about their models otherwise than they judge (case A08). Asked once a minute at most."""
    known = _LOOKED.get((endpoint, key))
    if known is None or clock.monotonic() - known[0] > LOOKED_S:
        known = _LOOKED[endpoint, key] = clock.monotonic(), _ask_models(endpoint, key)
    return known[1]


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """The key goes to the endpoint and nowhere else."""


def _ask_models(endpoint: str, key: str) -> str:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        asked = urllib.request.Request(f"{endpoint}/models", headers=headers)
        with urllib.request.build_opener(_Stay).open(asked, timeout=LOOK_S):
            return ""
    except urllib.error.HTTPError as error:
        return f"answers {error.code} to a question about its models" if error.code in (401, 403) else ""
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        return f"was not reached: {sanitize(str(reason), limit=200, newlines=False)}"
