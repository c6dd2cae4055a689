"""The login an agent runs with (design §5, Secrets; H §2.7), and that of a judge: one way for both.

    static_token   the file goes in
    broker         a file of the run's own goes in: the live access token, a placeholder instead of what renews;
                   the companion answers the CLI's renewals (`run.broker`)
    exclusive      the whole file goes in, for one run at a time, and is taken back by the harvest (`run.returning`)

Which tokens a run was given stands in `<scratch>/secrets.json`, outside the sandbox, for redaction.
"""

from __future__ import annotations

import random
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ptb_tui.content.agents import Agent
from ptb_tui.content.judges import load_judge
from ptb_tui.core import files
from ptb_tui.core.credential import FAMILIES, CredentialUse, token_url
from ptb_tui.core.errors import PtbError, StepError
from ptb_tui.core.keys import KeyPolicy, policy
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import config_home
from ptb_tui.core.spec import Problem, RunSpec
from ptb_tui.run import returning
from ptb_tui.run.broker import SECRETS
from ptb_tui.run.renewing import AHEAD_S
from ptb_tui.run.sources import Look, Provision, Ready
from ptb_tui.supplies import credentials
from ptb_tui.supplies.credentials import Located, Standing
from ptb_tui.supplies.leases import Lease
from ptb_tui.supplies.logins import Login, for_a_run

WAIT_S = 800.0  # for an exclusive login that another run still has; less than the limit of preparing
PATIENCE_S = 7 * 86400.0  # an exclusive login is passed over only when its run is known to be over
LOOK_S = 1.0
_PORTS = (20000, 32000)  # below those that the kernel gives to outgoing connections


def agent_keys(agent: Agent, config: str, required: Sequence[str], values: Mapping[str, str]) -> KeyPolicy:
    """The keys that an agent's sandbox gets for a task (H §1.5)."""
    return policy(agent.keys, required, values, by_config=agent.config_keys, config=config)


def of_spec(agent: Agent, limit: int | None) -> dict[str, Any]:
    """What a run's spec says about its login: the name, where it was found, how many runs may use it at a time.

    An agent that works with keys alone is counted by their names.
    """
    use = agent.credential
    if not use.is_login:
        return {"credential": "+".join(agent.keys), "per_credential": limit if agent.keys else None}
    fields: dict[str, Any] = {"credential": use.name, "per_credential": 1 if use.exclusive else limit}
    found = credentials.locate(use, config_home(), agent.login_files)
    if found is not None and not found.ours:
        fields["credential_file"] = str(found.path)
    if found is not None and use.exclusive:
        fields["credential_state"] = str(credentials.state_stem(config_home(), found.path))
    return fields


def look_at(look: Look) -> Standing:
    """How the agent's login stands here and now."""
    given = (Path(look.spec.credential_file),) if look.spec.credential_file else ()
    return credentials.standing(look.agent.credential, config_home(), (*look.agent.login_files, *given))


def problems(look: Look) -> list[Problem]:
    """A login that is missing or over stands in the way; what the agent can do with it is said."""
    use = look.agent.credential
    found = [*judge_problems(look)]
    if not use.is_login:
        return found
    state = look_at(look)
    if not state.usable:
        return [*found, Problem(words=state.words, remedy=credentials.remedy(use))]
    words = ""
    if use.exclusive:
        words = f"login {use.name}: one run at a time; the agent can read and use up the whole login"
    elif use.kind == "static_token":
        words = f"login {use.name}: the agent can read the token"
    if words:
        found.append(Problem(words=words, remedy="a login of its own for this purpose", blocks=False))
    return found


def judge_problems(look: Look) -> list[Problem]:
    """Judges that log in need a login that stands well, and better one that is not the agents'."""
    found, seen = list[Problem](), set[str]()
    agents = look_at(look) if look.agent.credential.is_login else None
    for plan in look.spec.judges:
        if "codex" not in plan.engines:
            continue
        try:
            use = load_judge(look.content, plan.judge).spec.credential
        except PtbError:
            continue  # said elsewhere
        if not use.is_login or use.name in seen:
            continue
        seen.add(use.name)
        state = credentials.standing(use, config_home())
        if not state.usable:
            found.append(Problem(words=f"for the judges, {state.words}", remedy=credentials.remedy(use)))
        elif agents is not None and credentials.same_login(agents, state):
            words = f"the judges use the agents' login {use.name}: a limit that agents reach stops the judges too"
            found.append(Problem(words=words, remedy="`[credential]` of judge.toml", blocks=False))
    return found


def provide(look: Look, ready: Ready) -> Provision:
    """The login file in the sandbox's home, and what keeps it alive; which keys there will be. StepError of cause
    credential."""
    use, values = look.agent.credential, look.settings.values
    names = agent_keys(look.agent, look.spec.config, look.task.info.required_api_keys, values).names
    keys = f"API keys: {', '.join(names) or '<none>'}"  # names alone (H §1.5)
    if not use.is_login:
        return Provision(notes=(keys,))
    given = hand_over(use, look_at(look), Place(ready, look.spec.network, values, look.root, look.spec))
    return replace(given, notes=(keys, *given.notes))


def judge_login(
    judge: str, use: CredentialUse, ready: Ready, network: str, values: Mapping[str, str], root: Root, spec: RunSpec
) -> Provision:
    """The login of a judge that runs in a sandbox of its own: as `provide`, for the credential of `judge.toml`.

    `companion` of what is returned belongs into the `companion.json` of the judge's own scratch. StepError.
    """
    if not use.is_login:
        return Provision()
    if use.exclusive:
        raise StepError(f"judge {judge}: an exclusive login cannot be shared with runs", cause="credential")
    return hand_over(use, credentials.standing(use, config_home()), Place(ready, network, values, root, spec))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a login is put, and for whom."""

    ready: Ready
    network: str
    values: Mapping[str, str]
    root: Root
    spec: RunSpec


def hand_over(use: CredentialUse, state: Standing, place: Place) -> Provision:
    """Put the login into the home. StepError of cause credential when there is none to put."""
    if not state.usable or state.located is None or state.login is None:
        raise StepError(state.words, cause="credential", hint=credentials.remedy(use))
    located, login = state.located, state.login
    facts: dict[str, Any] = {"name": use.name, "kind": use.words, "origin": located.origin}
    notes = (f"login: {use.name}, {use.words}",)
    if use.renewal == "broker":
        _write(place.ready.home, use.file, for_a_run(login))
        _remember(place.ready.scratch, use, [login], whole=False)
        given = _brokered(use, located, place, login)
        return replace(given, notes=(*notes, *given.notes), facts=facts)
    if use.exclusive:
        login = _take(use, located, login, place)
    _write(place.ready.home, use.file, login.data)
    _remember(place.ready.scratch, use, [login], whole=True)
    return Provision(notes=notes, facts=facts)


def _write(home: Path, name: str, data: bytes) -> None:
    target = home / name
    for folder in reversed([folder for folder in target.parents if home in folder.parents]):
        folder.mkdir(mode=0o700, exist_ok=True)
    files.replace(target, data, mode=0o600)


def _remember(scratch: Path, use: CredentialUse, logins: Sequence[Login], *, whole: bool) -> None:
    found = credentials.secrets_of({f"{use.name}-{n}": login for n, login in enumerate(logins, 1)})
    if not whole:  # the renewing token stays outside, and so it does of every file of the run
        found = {name: token for name, token in found.items() if not name.endswith("-refresh")}
    files.replace(scratch / SECRETS, credentials.dump_secrets(found), mode=0o600)


def _brokered(use: CredentialUse, located: Located, place: Place, login: Login) -> Provision:
    """Where the CLI renews: our companion, on the sandbox's own loopback where it has one."""
    sandbox, family = place.ready.sandbox, FAMILIES[use.family]
    private = sandbox.isolated and place.network == "gateway"
    if sandbox.isolated and place.network == "none":
        ended = " and its token has ended" if login.expired(ahead=AHEAD_S) else ""
        return Provision(notes=(f"login: it cannot be renewed without a network{ended}",))
    port, secret = free_port(), f"/{secrets.token_urlsafe(32)}"
    settings = {
        "login": str(located.path),
        "state": str(credentials.state_stem(config_home(), located.path)),
        "token_url": token_url(use.family, place.values),
        "client_id": family.client_id,
        "secret": secret,
        "port": port,
        "listen": not private,
    }
    url = f"http://127.0.0.1:{port}{secret}"
    return Provision(
        env=dict.fromkeys(family.switches, url),
        reach=(port,) if private else (),
        companion={"broker": settings},
    )


def for_network(companion: Mapping[str, Any], network: str) -> dict[str, Any]:
    """`companion.json` for the network that a command really has: in an open one loopback is the host's."""
    broker = companion.get("broker")
    if network != "open" or not isinstance(broker, dict):
        return dict(companion)
    return {**companion, "broker": {**broker, "listen": True}}


def listen_port(companion: Mapping[str, Any]) -> int:
    """`listen` of `launch.json`: the port of the host's loopback that the shim holds for this companion; 0 for none."""
    broker = companion.get("broker")
    return int(broker["port"]) if isinstance(broker, dict) and broker["listen"] else 0


def free_port() -> int:
    """A port of the host's loopback that nobody listens at. StepError when none is found."""
    for _ in range(200):
        port = random.SystemRandom().randrange(*_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise StepError("no free port on this machine's loopback", cause="sandbox")


def _take(use: CredentialUse, located: Located, login: Login, place: Place) -> Login:
    """Take an exclusive login for this run, waiting while another has it. StepError when it does not come free."""
    lease = Lease(credentials.state_stem(config_home(), located.path))
    me, limit = returning.owner(place.root, place.spec.id), time.monotonic() + WAIT_S
    while not lease.take(me, PATIENCE_S, returning.over):
        held = lease.look()
        if returning.is_mine(held, place.root, place.spec.id):
            break  # a former attempt to prepare this very run has it
        if time.monotonic() > limit:
            words = f"the login {use.name} is still with {returning.holder_words(held)}"
            raise StepError(words, cause="credential", hint="one run at a time may use it")
        time.sleep(LOOK_S)
    now = credentials.read(located.path) or login  # the run before may just have brought back another
    returning.note(place.ready.scratch, use, located, place.root, place.spec.id, lease.stem)
    return now
