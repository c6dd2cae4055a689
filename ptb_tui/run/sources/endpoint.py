"""Where the CLI finds its model: the vendor, a gateway, a server on this machine (design §5a, `[endpoints]`).

`[endpoints]` of a sweep, then of the site, then `endpoint` of `agent.toml`; a key is the name of an agent or of the CLI
that agents start, the agent's own name wins. The URL is the base URL as that CLI takes it. It is resolved when the run
is planned, recorded in its spec, and reaches `solve.sh` as PTB_ENDPOINT, which tells the CLI in the CLI's own way.

On this machine's loopback the agent reaches a server through the gateway, at the same port of its own loopback.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from urllib.parse import SplitResult, urlsplit

from ptb_tui.content.agents import Agent, load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.core.errors import PtbError, StepError
from ptb_tui.core.spec import Problem
from ptb_tui.run.graders import NAME
from ptb_tui.run.sources import Look, Provision, Ready
from ptb_tui.sandbox.bubblewrap import PORT

VARIABLE = "PTB_ENDPOINT"
JUDGES = "openai_api"  # the judges' engine of that name
WITHOUT = ("cursor-agent", "grok")  # CLIs that talk to their own service alone
# The URL ends up in files of several CLIs: what would need quoting in one of them is no part of it.
_URL = re.compile(r"https?://[A-Za-z0-9._~:/\[\]%@+-]{1,500}")
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|::1")


def family(agent: Agent) -> str:
    """The name under which an agent's endpoint is recorded: its CLI, or itself where it names none."""
    return agent.cli or agent.name


def resolve(agent: Agent, *tables: Mapping[str, str]) -> dict[str, str]:
    """The endpoint of an agent as `RunSpec.endpoints`: of the first table that names it or its CLI, else its own."""
    for table in tables:
        for name in (agent.name, agent.cli):
            if name and (url := table.get(name)) is not None:
                return {family(agent): url.strip().rstrip("/")} if url.strip() else {}
    return {family(agent): agent.endpoint.rstrip("/")} if agent.endpoint else {}


def unknown(names: Iterable[str], content: Content, where: str) -> list[Problem]:
    """Keys of a table that are neither an agent, nor the CLI of one, nor the graders' or the judges': what they promise
    would not happen."""
    known: set[str] = {NAME, JUDGES}
    for name in content.names("agents") if names else ():
        known.add(name)
        try:
            known.add(load_agent(content, name).cli)
        except PtbError:
            continue
    problems = []
    for name in sorted(set(names) - known):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        remedy = f"did you mean {near[0]!r}?" if near else "name an agent, or the CLI that agents start"
        problems.append(Problem(words=f"{where}: {name!r} is neither an agent nor a CLI", remedy=remedy))
    return problems


def _parts(url: str) -> tuple[SplitResult | None, str]:
    """The parts of a URL, or what is wrong with it."""
    if not _URL.fullmatch(url):
        return None, "is no URL http://HOST[:PORT][/PATH] or https://…"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None, "has a port that is none"
    if not parts.hostname or port == 0:
        return None, "names no host and port"
    if "@" in parts.netloc:
        return None, "holds a name or a password: keys belong into .env"
    return parts, ""


def _loopback(parts: SplitResult) -> bool:
    return _LOOPBACK.fullmatch(parts.hostname or "") is not None


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def problems(look: Look) -> list[Problem]:
    """What stands in the way of this run at this site."""
    url = look.spec.endpoints.get(family(look.agent), "")
    if not url:
        return []
    said, remedy = f"endpoint {url[:200]!r} of {look.spec.agent}", "[endpoints] of the sweep, or of the site"
    if look.agent.cli in WITHOUT:
        words = f"{said}: the CLI {look.agent.cli} talks to its own service alone"
        return [Problem(words=words, remedy="take it out of [endpoints]")]
    parts, wrong = _parts(url)
    if parts is None:
        return [Problem(words=f"{said} {wrong}", remedy=remedy)]
    found = []
    if look.spec.network == "none":
        words = f"{said}: the agents of protocol {look.spec.protocol.name} have no network"
        found.append(Problem(words=words, remedy="a protocol with agents_network gateway or full"))
    elif _loopback(parts) and look.spec.network == "gateway":
        if parts.hostname not in ("127.0.0.1", "localhost"):
            words = f"{said}: only 127.0.0.1 of this machine's loopback is shown to an agent"
            found.append(Problem(words=words, remedy="write 127.0.0.1, and let the server listen there"))
        elif _port(parts) == PORT:
            words = f"{said}: port {PORT} of the agent's loopback is the gateway's"
            found.append(Problem(words=words, remedy="let the server listen on another port"))
    elif parts.scheme == "http" and not _loopback(parts):
        words = f"{said}: the agent's key crosses the network unencrypted"
        found.append(Problem(words=words, remedy="https://, or a gateway on this machine", blocks=False))
    return found


def provide(look: Look, ready: Ready) -> Provision:
    """What the sandbox gets."""
    url = look.spec.endpoints.get(family(look.agent), "")
    if not url:
        return Provision()
    parts, wrong = _parts(url)
    if parts is None:
        raise StepError(f"endpoint {url[:200]!r} {wrong}", cause="prepare_failed")
    inside = _loopback(parts) and look.spec.network == "gateway"
    return Provision(
        env={VARIABLE: url},
        reach=(_port(parts),) if inside else (),
        facts={"url": url, "through": "gateway" if inside else look.spec.network},
    )
