"""The CLIs of agents, as a site answers and does: what is there, update, pin, roll back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.content.agents import Agent, load_agent
from ptb_tui.core.action import AgentPin, AgentRollback, AgentUpdate, Receipt
from ptb_tui.core.errors import ContentError, NotFound, PtbError, UsageError
from ptb_tui.core.supply import AgentRow, AgentsQuery, AgentsView
from ptb_tui.results.records import RunRecord
from ptb_tui.run.site_words import cli_store, site_word
from ptb_tui.run.sources.cli import declared, table
from ptb_tui.site.supplies import begin
from ptb_tui.supplies import npm, trees
from ptb_tui.supplies.clis import CliTable, checked_version
from ptb_tui.supplies.store import PinKind, Store

if TYPE_CHECKING:
    from ptb_tui.site.local import LocalSite


def _store(site: LocalSite) -> Store:
    return Store(cli_store(site.root, site.settings))


def _meant(site: LocalSite, name: str) -> tuple[PinKind, str]:
    """What NAME is, and its CLI: the name of a CLI goes before that of an agent. NotFound, or ContentError."""
    if name in table(site.content).cli:
        return "cli", name
    agent = load_agent(site.content, name)
    if not agent.cli:
        raise NotFound(f"agent {name} starts no CLI that the store could hold", hint="ptb-tui agents")
    declared(site.content, agent.cli)
    return "agent", agent.cli


def update(site: LocalSite, action: AgentUpdate) -> Receipt:
    """Begin to get a CLI. UsageError and its kinds when the name or the version cannot be meant."""
    _, cli = _meant(site, action.name)
    known = table(site.content)
    spec, version = known.cli[cli], action.version and checked_version(action.version)
    if version and spec.installer:
        raise UsageError(f"{cli} comes from an installer that brings the newest version alone")
    request = {
        "store": str(_store(site).path),
        "name": cli,
        "cli": spec.model_dump(mode="json"),
        "node": known.node,
        "version": version,
        "keep": action.keep,
    }
    subject = " ".join(word for word in (cli, version, "beside the current one" if action.keep else "") if word)
    receipt = begin(site, "cli", subject, request)
    return receipt.model_copy(update={"action": action.kind})


def pin(site: LocalSite, action: AgentPin) -> Receipt:
    """Pin or unpin, from the next run on."""
    kind, cli = _meant(site, action.name)
    store = _store(site)
    whose = f"all agents on {cli}" if kind == "cli" else f"agent {action.name}"
    if not action.version:
        there = store.unpin(kind, action.name)
        words = f"the pin of {whose} is gone" if there else f"{whose} had no pin"
        return Receipt(action="agent_pin", words=words)
    found = store.pin(kind, action.name, cli, checked_version(action.version))
    return Receipt(action="agent_pin", words=f"{whose}: the next runs get {cli} {found.version}, {found.name}")


def roll_back(site: LocalSite, action: AgentRollback) -> Receipt:
    """Go back one version, for runs that start from now on."""
    _, cli = _meant(site, action.name)
    store = _store(site)
    found = store.roll_back(cli)
    words = f"{cli} {found.version} is current again"
    chosen = store.choose(cli)
    if chosen.wanted:
        words += f"; runs still get {chosen.wanted}, to which {cli} is pinned"
    return Receipt(action="agent_rollback", words=words)


def agents(site: LocalSite, query: AgentsQuery) -> AgentsView:
    """Every agent with the CLI that its next run gets."""
    store, known = _store(site), table(site.content)
    problems = _ask(store, known) if query.ask else []
    updates = site_word(site.root, site.settings, "cli_updates")
    last: dict[str, RunRecord] = {}
    for record in site.scan().runs:
        before = last.get(record.agent)
        if record.started and (before is None or record.started > before.started):
            last[record.agent] = record
    rows = []
    for name in site.content.names("agents"):
        used = last.get(name)
        row = AgentRow(
            name=name, last_run=used.id if used else None, last_used=used.started if used else "", ready=False
        )
        try:
            agent = load_agent(site.content, name)
            rows.append(row.model_copy(update=_cli_of(site, store, known, agent, updates)))
        except PtbError as error:
            rows.append(row.model_copy(update={"problem": error.message}))
    return AgentsView(store=str(store.path), updates=updates, agents=tuple(rows), problems=tuple(problems))


def _cli_of(site: LocalSite, store: Store, known: CliTable, agent: Agent, updates: str) -> dict[str, object]:
    found: dict[str, object] = {"label": agent.label, "cli": agent.cli, "ready": True}
    if not agent.cli:
        return found | {"source": "its own"}
    spec = known.cli.get(agent.cli)
    if spec is None:
        raise ContentError(f"the CLI {agent.cli!r} is not in containers/clis.toml")
    newest, asked = store.newest(agent.cli)
    found |= {"newest": newest, "newest_asked": asked}
    if updates == "at-start":
        return found | {"source": "installed when the agent starts"}
    choice = store.choose(agent.cli, agent.name, site.settings.values.get(spec.pin_variable, ""))
    if choice.found is None:
        words = f"{choice.wanted} is {choice.why}, but not in the store" if choice.wanted else "not in the store"
        return found | {"source": words, "ready": False}
    return found | {"version": choice.found.version, "digest": choice.found.digest[:12], "source": choice.why}


def _ask(store: Store, known: CliTable) -> list[str]:
    """Ask npm for the newest version of each CLI; what failed, in words."""
    work = store.workplace()
    problems = []
    try:
        for name, spec in known.cli.items():
            if spec.package:
                try:
                    store.remember_newest(name, npm.newest(spec.package, "latest", work))
                except PtbError as error:
                    problems.append(f"{name}: {error.message}")
    finally:
        trees.remove(work)
    return problems
