"""The versioned store of CLIs on a site: what is there, what is current, what is pinned (design §3, supplies).

    <store>/<cli>/<version>-<digest12>/         a tree that never changes: bin/<binary>, what it starts, its Node
    <store>/<cli>/<version>-<digest12>.json     written when it was seen to start; without it a tree is not there
    <store>/<cli>/current.json  newest.json     small files, replaced whole
    <store>/pins/{cli,agent}/<name>.json
    <store>/tmp/

There is no lock: trees are named by their content and put in place by one rename, so two updates at once end with the
same tree or with two trees, one of them current. Nothing here is ever removed but unfinished work that is a day old.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ptb_tui.core import clock, files
from ptb_tui.core.errors import NotFound, StorageError
from ptb_tui.supplies import trees

STALE_S = 86_400.0
REMEMBERED = 20  # versions that were current before
PinKind = Literal["cli", "agent"]


class Installed(BaseModel):
    """One version in the store. `said` is what the CLI printed when it was asked for its version, from its place."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    v: Literal[1] = 1
    cli: str
    name: str  # of its folder
    version: str
    digest: str
    said: str = ""
    source: str = ""  # the npm package, or the address of the installer
    node: str = ""
    installed: str = ""
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run would get. Without `found`, `wanted` is the version that is asked for and not there, if any."""

    found: Installed | None
    why: Literal["current", "pinned for the agent", "pinned", "asked for by a variable"] = "current"
    wanted: str = ""


def default_store(cache_home: str = "") -> Path:
    """Where the store is when the site's configuration does not say: `$XDG_CACHE_HOME/ptb-tui/clis`."""
    base = cache_home or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "ptb-tui" / "clis"


class Store:
    """A store at a path, which need not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tree(self, version: Installed) -> Path:
        """The folder of a version, with links resolved: a bind names the real place."""
        return Path(os.path.realpath(self.path / version.cli / version.name))

    def versions(self, cli: str) -> tuple[Installed, ...]:
        """All versions of a CLI, the one installed last first."""
        found = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.path / cli):
                if entry.name.endswith(".json") and "-" in entry.name:
                    found.append(self._read(cli, entry.name.removesuffix(".json")))
        there = [version for version in found if version is not None]
        return tuple(sorted(there, key=lambda version: (version.installed, version.name), reverse=True))

    def find(self, cli: str, wanted: str) -> Installed | None:
        """A version by its number or by the name of its folder."""
        return next((item for item in self.versions(cli) if wanted in (item.version, item.name)), None)

    def current(self, cli: str) -> Installed | None:
        """The version that was made current."""
        return self._read(cli, str((files.read_object(self.path / cli / "current.json") or {}).get("name") or ""))

    def choose(self, cli: str, agent: str = "", asked: str = "") -> Choice:
        """The version for a run: a pin of the agent, then `asked`, then a pin of the CLI, then the current one."""
        for wanted, why in (
            (self.pinned("agent", agent) if agent else "", "pinned for the agent"),
            (asked, "asked for by a variable"),
            (self.pinned("cli", cli), "pinned"),
        ):
            if wanted:
                return Choice(self.find(cli, wanted), why, wanted)  # type: ignore[arg-type]
        return Choice(self.current(cli))

    def make_current(self, version: Installed) -> str:
        """Make a version current and return the name of the one before, which may be the same or empty."""
        before = files.read_object(self.path / version.cli / "current.json") or {}
        old = str(before.get("name") or "")
        if old == version.name:
            return old
        names = [old, *(str(name) for name in before.get("before") or () if name != old)] if old else []
        self._point(version, names)
        return old

    def roll_back(self, cli: str) -> Installed:
        """Make current what was current before. NotFound when nothing was."""
        record = files.read_object(self.path / cli / "current.json") or {}
        names = [str(name) for name in record.get("before") or ()]
        for at, name in enumerate(names):
            if (version := self._read(cli, name)) is not None:
                self._point(version, names[at + 1 :])
                return version
        raise NotFound(f"no version of {cli} was current before this one", hint=f"there are: {self._listed(cli)}")

    def pin(self, kind: PinKind, name: str, cli: str, version: str) -> Installed:
        """Let runs of an agent, or of all agents of a CLI, get this version. NotFound when it is not in the store."""
        found = self.find(cli, version)
        if found is None:
            words = f"{cli} {version} is not in the store; there are: {self._listed(cli)}"
            raise NotFound(words, hint=f"ptb-tui agents update {cli} --version {version}")
        self._write(self._pin(kind, name), {"v": 1, "name": found.name, "t": clock.utc_text()})
        return found

    def unpin(self, kind: PinKind, name: str) -> bool:
        """Take a pin away; False when there was none."""
        try:
            self._pin(kind, name).unlink()
        except FileNotFoundError:
            return False
        return True

    def pinned(self, kind: PinKind, name: str) -> str:
        """The folder name of the version an agent or a CLI is pinned to, empty for none."""
        return str((files.read_object(self._pin(kind, name)) or {}).get("name") or "")

    def newest(self, cli: str) -> tuple[str, str]:
        """The newest version its source had, and when it was asked (UTC text); empty texts when it never was."""
        record = files.read_object(self.path / cli / "newest.json") or {}
        return str(record.get("version") or ""), str(record.get("t") or "")

    def remember_newest(self, cli: str, version: str) -> None:
        """Keep what the source answered."""
        self._write(self.path / cli / "newest.json", {"v": 1, "version": version, "t": clock.utc_text()})

    def publish(self, version: Installed) -> None:
        """Write that a tree is good; from now on it can be chosen."""
        self._write(self.path / version.cli / f"{version.name}.json", version.model_dump(mode="json"))

    def workplace(self) -> Path:
        """A new folder in the store's own file system; what others left unfinished a day ago goes. StorageError."""
        base = self.path / "tmp"
        made = base / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        try:
            made.mkdir(parents=True)
            for entry in os.scandir(base):
                if entry.stat(follow_symlinks=False).st_mtime < time.time() - STALE_S:
                    trees.remove(Path(entry.path))
        except OSError as error:
            words = f"the CLI store {self.path} cannot be written: {error.strerror}"
            raise StorageError(words, hint="cli_store of the site in config.toml names another folder") from error
        return made

    def _pin(self, kind: PinKind, name: str) -> Path:
        return self.path / "pins" / kind / f"{name}.json"

    def _listed(self, cli: str) -> str:
        return ", ".join(dict.fromkeys(item.version for item in self.versions(cli))) or "none"

    def _read(self, cli: str, name: str) -> Installed | None:
        if not name or "/" in name or not (self.path / cli / name / "bin").is_dir():
            return None
        try:
            found = Installed.model_validate(files.read_object(self.path / cli / f"{name}.json"))
        except ValidationError:
            return None
        return found if (found.cli, found.name) == (cli, name) else None

    def _point(self, version: Installed, before: list[str]) -> None:
        record = {"v": 1, "name": version.name, "before": before[:REMEMBERED], "t": clock.utc_text()}
        self._write(self.path / version.cli / "current.json", record)

    def _write(self, path: Path, record: dict[str, Any]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.replace(path, files.dump(record))
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error.strerror}") from error
