"""The logins and keys of this machine: how they stand, who works with them, which limits they met (design §5)."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ptb_tui.content.agents import Agent, load_agent
from ptb_tui.content.judges import load_judge
from ptb_tui.core import files
from ptb_tui.core.action import Receipt
from ptb_tui.core.credential import CredentialRow, CredentialsQuery, CredentialsView, CredentialUse
from ptb_tui.core.errors import NotAllowed, NotFound, PtbError, StorageError, UsageError
from ptb_tui.core.keys import CODEX, on_host
from ptb_tui.core.query import Check
from ptb_tui.core.settings import config_home
from ptb_tui.core.trace import TraceEvent, TraceKind
from ptb_tui.results.records import RunRecord
from ptb_tui.run.returning import holder_words, over
from ptb_tui.supplies import credentials as logins
from ptb_tui.supplies import rescue
from ptb_tui.supplies.leases import Lease, held
from ptb_tui.supplies.logins import MAX_LOGIN, read_login
from ptb_tui.traces import index

if TYPE_CHECKING:
    from ptb_tui.content.lookup import Content
    from ptb_tui.site.local import LocalSite

LOOKED_AT = 30  # newest runs of a login in whose traces a limit is looked for
TAIL = 1 << 18  # bytes of a trace's index
LOCK_PATIENCE_S, LOCK_WAIT_S = 120.0, 130.0  # for a renewal that goes on


@dataclass(slots=True)
class Known:
    """One login and everybody whose content names it."""

    use: CredentialUse
    beside: list[Any] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    judges: list[str] = field(default_factory=list)


def known(content: Content) -> tuple[dict[str, Known], dict[str, list[str]], list[str]]:
    """Logins by name, keys with the agents that may see them, and what could not be read."""
    found: dict[str, Known] = {}
    keys: dict[str, list[str]] = {}
    problems: list[str] = []
    for name in content.names("agents"):
        try:
            agent: Agent = load_agent(content, name)
        except PtbError as error:
            problems.append(error.message)
            continue
        for key in agent.keys:
            keys.setdefault(key, []).append(name)
        if agent.credential.is_login:
            one = found.setdefault(agent.credential.name, Known(agent.credential))
            one.agents.append(name)
            one.beside += agent.login_files
    for name in content.names("judges"):
        try:
            use = load_judge(content, name).spec.credential
        except PtbError as error:
            problems.append(error.message)
            continue
        if use.is_login:
            found.setdefault(use.name, Known(use)).judges.append(name)
    return found, keys, problems


def checks(content: Content) -> Iterator[Check]:
    """Lines of doctor: logins that are there and not usable are bad; absent ones are nobody's fault."""
    found, _, _ = known(content)
    good = []
    for name, one in sorted(found.items()):
        standing = logins.standing(one.use, config_home(), one.beside)
        if standing.usable:
            good.append(name)
        elif standing.state != "absent":
            yield Check(name=f"login {name}", state="bad", words=standing.words, remedy=logins.remedy(one.use))
    if good:
        yield Check(name="logins", state="ok", words=", ".join(good))
    else:
        yield Check(
            name="logins", state="unknown", words="none", remedy="`ptb-tui credentials` lists those that agents use"
        )


def use_of(content: Content, name: str) -> CredentialUse:
    """The login of this name. NotFound names those that there are; UsageError for a key."""
    return known_as(content, name).use


def known_as(content: Content, name: str) -> Known:
    """The login of this name and who names it; as `use_of`."""
    found, keys, _ = known(content)
    if name in found:
        return found[name]
    if name in keys or name.endswith("_KEY"):
        raise UsageError(f"{name} is a key, not a login", hint=f"put {name}=… into .env")
    raise NotFound(f"no login {name!r} is named by an agent or a judge", hint=f"known: {', '.join(sorted(found))}")


def _place(content: Content, name: str) -> tuple[Known, logins.Located]:
    one = known_as(content, name)
    if (located := logins.locate(one.use, config_home(), one.beside)) is None:
        raise NotFound(f"there is no login {name} here", hint=logins.remedy(one.use))
    return one, located


def release(content: Content, name: str) -> Receipt:
    """Give a login free, whoever is said to have it and however its lock looks. StorageError when that fails."""
    _, located = _place(content, name)
    lease = Lease(logins.state_stem(config_home(), located.path))
    before = lease.look()
    if before.free:
        return Receipt(action="credential_release", words=f"nobody has the login {name}")
    lease.release_for(lambda seen: seen.number == before.number)
    if not lease.look().free:
        raise StorageError(f"the lock of {name} beside {lease.stem} cannot be given free")
    return Receipt(action="credential_release", words=f"the login {name} is free; it was with {holder_words(before)}")


def restore(content: Content, name: str) -> Receipt:
    """Exchange the file of a login and the one before. NotFound without one, NotAllowed while a run has the login."""
    one, located = _place(content, name)
    stem = logins.state_stem(config_home(), located.path)
    before = files.read_bytes(logins.before_of(stem), MAX_LOGIN)
    if before is None or read_login(before) is None:
        raise NotFound(f"{logins.before_of(stem)} holds no login")
    holder = Lease(stem).look()
    if one.use.exclusive and not (holder.free or over(holder)):
        raise NotAllowed(f"the login {name} is with {holder_words(holder)}")
    with held(stem, LOCK_PATIENCE_S, 0.0 if one.use.exclusive else LOCK_WAIT_S) as lease:
        if lease is None and not one.use.exclusive:
            raise NotAllowed(f"the login {name} is being renewed; try again")
        now = files.read_bytes(located.path, MAX_LOGIN)
        files.replace(located.path, before, mode=0o600)
        if now is not None:
            files.replace(logins.before_of(stem), now, mode=0o600)
        rescue.drop(stem)
    words = f"{located.path} is the one before; the one that was there is kept as {logins.before_of(stem)}"
    return Receipt(action="credential_restore", words=words)


def credentials(site: LocalSite, query: CredentialsQuery) -> CredentialsView:
    """Every login and key that content names."""
    found, keys, problems = known(site.content)
    using: dict[str, list[RunRecord]] = {}
    for record in site.scan().runs:
        if not record.foreign and (name := _credential_of(record)):
            using.setdefault(name, []).append(record)
    rows = [_login_row(one, using.get(name, [])) for name, one in sorted(found.items())]
    values = on_host(site.settings.values)
    for name, agents in sorted(keys.items()):
        runs = [record for credential in using for record in using[credential] if name in credential.split("+")]
        words = "" if values.get(name) else "it has no value" + (" (nor has OPENAI_API_KEY)" if name == CODEX else "")
        row = CredentialRow(
            name=name,
            what="api_key",
            state="ok" if values.get(name) else "absent",
            words=words,
            origin=site.settings.origins.get(name, ""),
            agents=tuple(agents),
            **_use(runs),
        )
        rows.append(row)
    folder = str(logins.store(config_home()))
    return CredentialsView(folder=folder, credentials=tuple(rows), problems=tuple(problems))


def _credential_of(record: RunRecord) -> str:
    try:
        return str(json.loads(record.spec_text or "{}").get("credential") or "")
    except (ValueError, AttributeError):
        return ""


def _login_row(one: Known, runs: list[RunRecord]) -> CredentialRow:
    standing = logins.standing(one.use, config_home(), one.beside)
    login, located = standing.login, standing.located
    return CredentialRow(
        name=one.use.name,
        what=one.use.words,
        state=standing.state,
        words=standing.words,
        file=str(located.path) if located else "",
        origin=located.origin if located else "",
        account=login.account if login else "",
        expires=logins.when(login.expires) if login else "",
        renewed=login.renewed if login else "",
        agents=tuple(one.agents),
        judges=tuple(one.judges),
        login=one.use.login,
        **_use(runs),
    )


def _use(runs: list[RunRecord]) -> dict[str, Any]:
    """Who works with it now, and the newest limit that one of its runs met."""
    active = []
    for record in runs:
        step = record.agent_step
        if step is not None and not step.ended and step.started:
            active.append(record.id)
    fields: dict[str, Any] = {"runs": tuple(sorted(active))}
    for record in sorted(runs, key=lambda record: -record.id)[:LOOKED_AT]:
        limits = [event for event in _tail(record) if _is_limit(event)]
        if limits:
            return {**fields, **_limit_words(limits[-1]), "limit_run": record.id}
    return fields


def _tail(record: RunRecord) -> Iterator[TraceEvent]:
    """The last rows of a run's index; a first row that is cut is skipped by the reader."""
    try:
        fd = os.open(record.path / ".ptb" / "trace.idx", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        size = os.fstat(fd).st_size
        data = os.pread(fd, TAIL, max(0, size - TAIL))
    except OSError:
        return
    finally:
        os.close(fd)
    yield from index.rows(io.BytesIO(data))


def _is_limit(event: TraceEvent) -> bool:
    if event.data.get("cause") == "provider_limit":
        return True
    return event.kind is TraceKind.LIMIT and event.data.get("status") == "rejected"


def _limit_words(event: TraceEvent) -> dict[str, str]:
    data = event.data
    at = data.get("resetsAt")
    resets = logins.when(float(at)) if isinstance(at, int | float) and not isinstance(at, bool) else ""
    resets = resets or str(data.get("resets") or data.get("resets_clock") or "")[:80]
    words = str(data.get("rateLimitType") or data.get("trouble") or "limit")[:80]
    status = data.get("error_status")
    when = f" at {event.time[:16].replace('T', ' ')}" if event.time else ""
    return {"limit": f"{words}{f' ({status})' if status else ''}{when}", "resets": resets}
