"""Agent folders: `agent.toml`, `solve.sh`, `api_keys.json` (H §2.1, design §3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.content.lookup import Content
from ptb_tui.content.reading import read_json_model, read_toml
from ptb_tui.core.credential import API_KEY, CredentialUse
from ptb_tui.core.errors import ContentError

SHARED = "_shared"  # what agents have in common; no agent


class AgentFile(BaseModel):
    """`agent.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    v: Literal[1] = 1
    label: str = ""
    description: str = ""
    extends: str = ""
    trace: str = ""
    trusted: bool = False
    cli: str = ""  # the CLI that solve.sh starts, a name of containers/clis.toml; inherited
    endpoint: str = ""  # where the CLI finds its model; empty is the CLI's own; inherited
    credential: CredentialUse | None = None  # the login it works with; without one, keys alone; inherited
    config_keys: dict[str, str] = Field(default_factory=dict)  # beginning of a config → the key it needs; inherited
    files: tuple[str, ...] = ()  # further files for $HOME/agent/: beside agent.toml, ../OTHER/FILE, or ../_shared/FILE
    home: dict[str, str] = Field(default_factory=dict)  # file of $HOME → file beside agent.toml; inherited
    env: dict[str, str] = Field(default_factory=dict)
    without: tuple[str, ...] = ()  # variables of the extended agent's env that this one does not get


class ApiKeys(BaseModel):
    """`api_keys.json`: names of the keys the agent may see."""

    model_config = ConfigDict(extra="allow", frozen=True)
    allowed_api_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent, ready to be copied into a sandbox."""

    name: str
    folder: Path
    solve: Path
    keys: tuple[str, ...]
    trace: str
    trusted: bool
    label: str
    files: tuple[Path, ...]
    env: dict[str, str]
    cli: str = ""
    endpoint: str = ""
    credential: CredentialUse = API_KEY
    login_files: tuple[Path, ...] = ()  # where the original keeps the login; read in place, never copied
    config_keys: dict[str, str] = field(default_factory=dict)
    home: dict[str, Path] = field(default_factory=dict)  # file below $HOME → what lies there


def _home(path: Path, table: dict[str, str]) -> dict[str, Path]:
    """`[home]` with its files. ContentError for one that is not there or would lie where something else belongs."""
    found = {}
    for target, source in table.items():
        parts = target.split("/")
        if not all(parts) or {".", ".."} & set(parts) or parts[0] in ("task", "agent") or target == "agent_solve.sh":
            raise ContentError(f"{path}: home: {target!r}: a path below the home, not in task/ or agent/")
        file = path.parent / source
        if ".." in source.split("/") or not file.is_file():
            raise ContentError(f"{path}: home: {source}: no such file beside it")
        found[target] = file.resolve()
    return found


def _beside(content: Content, folder: Path, extra: str) -> Path:
    """A file named in `files`. Another agent's is looked up as that agent is, and a shared one along the content path,
    so that a frozen copy, where all places are one folder, holds the same file."""
    up, _, rest = extra.partition("/")
    other, _, name = rest.partition("/")
    if up != ".." or not name or other == "..":
        return (folder / extra).resolve()
    if other == SHARED:
        return (content.file(f"agents/{SHARED}/{name}") or folder / extra).resolve()
    return (content.folder("agents", other) / name).resolve()


def _login_files(content: Content, chain: tuple[str, ...], use: CredentialUse) -> tuple[Path, ...]:
    """The original's places of a login (H §2.7): beside the script of the agent, then of those it extends."""
    if not use.is_login:
        return ()
    places = [content.place(path) for path in content.paths]
    return tuple(path / "agents" / agent / use.found for agent in chain for path in places)


def load_agent(content: Content, name: str, _extended_by: tuple[str, ...] = ()) -> Agent:
    """Read an agent folder with what it extends. NotFound or ContentError; a missing api_keys.json is an error."""
    if name in _extended_by:
        raise ContentError(f"agents that extend each other: {' → '.join((*_extended_by, name))}")
    folder = content.folder("agents", name)
    keys = read_json_model(
        folder / "api_keys.json",
        ApiKeys,
        f'agent {name} has no api_keys.json; write {{"allowed_api_keys": []}} if it needs none',
    )
    path = folder / "agent.toml"
    spec = read_toml(path, AgentFile) if path.is_file() else AgentFile()
    parent = load_agent(content, spec.extends, (*_extended_by, name)) if spec.extends else None
    solve = folder / "solve.sh"
    if not solve.is_file():
        if parent is None:
            raise ContentError(f"{solve}: agent {name} has no solve.sh and extends no agent that has one")
        solve = parent.solve
    files = [entry for entry in sorted(folder.iterdir()) if entry.is_file() and entry.suffix == ".py"]
    for extra in spec.files:
        source = _beside(content, folder, extra)
        if not source.is_file():
            raise ContentError(f"{path}: files: {extra}: no such file")
        files.append(source)
    inherited = parent.files if parent else ()
    env = dict(parent.env) if parent else {}
    for variable in spec.without:
        if env.pop(variable, None) is None:
            whose = f"agent {parent.name} sets no such variable" if parent else "extends is missing"
            raise ContentError(f"{path}: without: {variable}: {whose}")
    credential = spec.credential or (parent.credential if parent else API_KEY)
    config_keys = spec.config_keys or (parent.config_keys if parent else {})
    if unlisted := set(config_keys.values()) - set(keys.allowed_api_keys):
        raise ContentError(f"{path}: config_keys: {', '.join(sorted(unlisted))}: not in api_keys.json")
    ancestors = tuple(file.parent.name for file in parent.login_files) if parent else ()
    chain = tuple(dict.fromkeys((name, *((spec.extends,) if spec.extends else ()), *ancestors)))
    names = {file.name for file in files}
    return Agent(
        name=name,
        folder=folder,
        solve=solve,
        keys=keys.allowed_api_keys,
        trace=spec.trace or (parent.trace if parent else "plain"),
        trusted=spec.trusted,
        label=spec.label or name,
        files=(*files, *(file for file in inherited if file.name not in names)),
        env=env | spec.env,
        cli=spec.cli or (parent.cli if parent else ""),
        endpoint=spec.endpoint or (parent.endpoint if parent else ""),
        credential=credential,
        login_files=_login_files(content, chain, credential),
        config_keys=config_keys,
        home=(dict(parent.home) if parent else {}) | _home(path, spec.home),
    )
