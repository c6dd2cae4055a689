"""What an agent gets besides its home and its task, source by source: CLI, login, endpoint, model, image.

Each module here has two functions, so that what a plan promises is what prepare delivers:

    problems(look: Look) -> list[Problem]        at plan time, nothing is changed
    provide(look: Look, ready: Ready) -> Provision    when the step is prepared; StepError with a cause

`SOURCES` lists them in the order in which they are asked; in PATH and environment an earlier one wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ptb_tui.content.agents import Agent
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import Protocol as BenchmarkProtocol
from ptb_tui.content.tasks import Task
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import Problem, RunSpec
from ptb_tui.sandbox.base import Bind, Sandbox

SOURCES = ("cli", "login", "endpoint", "measuring", "model")


@dataclass(frozen=True, slots=True)
class Look:
    """What is known about a run at plan time and later."""

    root: Root
    spec: RunSpec
    agent: Agent
    task: Task
    protocol: BenchmarkProtocol
    content: Content
    settings: Settings


@dataclass(frozen=True, slots=True)
class Ready:
    """Where a step is being prepared: its scratch (home is `<scratch>/home`) and the sandbox it will run in."""

    scratch: Path
    sandbox: Sandbox

    @property
    def home(self) -> Path:
        """The host directory that becomes the sandbox's home; may be filled."""
        return self.scratch / "home"

    @property
    def home_inside(self) -> str:
        """The same directory as the agent sees it."""
        return self.sandbox.home_inside(self.home)


@dataclass(frozen=True, slots=True)
class Provision:
    """What one source adds. `env` holds no secret: values of keys are read when the agent starts.

    `path` goes to the front of PATH. `reach` are ports of the host's loopback that the agent finds at the same port of
    its own; they are allowed through the gateway. `companion` are further keys of `companion.json`. `facts` become
    part of `.ptb/provenance.json` under the source's name.
    """

    binds: tuple[Bind, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    reach: tuple[int, ...] = ()
    companion: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """A module of this room."""

    def problems(self, look: Look) -> list[Problem]:
        """What stands in the way of this run at this site."""
        ...

    def provide(self, look: Look, ready: Ready) -> Provision:
        """What the sandbox gets; StepError with a cause of `core/causes.toml`."""
        ...


def source(name: str) -> Source:
    """The module of a source."""
    found: Any = import_module(f"ptb_tui.run.sources.{name}")
    return found  # type: ignore[no-any-return]


def problems(look: Look) -> list[Problem]:
    """Everything that stands in the way, of all sources."""
    return [problem for name in SOURCES for problem in source(name).problems(look)]


def gather(look: Look, ready: Ready) -> tuple[Provision, dict[str, Any]]:
    """All provisions as one, and the facts by source. StepError when two sources want the same place."""
    total, facts = Provision(), dict[str, Any]()
    for name in SOURCES:
        found = source(name).provide(look, ready)
        if found.facts:
            facts[name] = dict(found.facts)
        targets = {bind.target for bind in total.binds} & {bind.target for bind in found.binds}
        if targets:
            raise StepError(f"two sources fill {', '.join(sorted(targets))}", cause="prepare_failed")
        total = Provision(
            binds=(*total.binds, *found.binds),
            env={**found.env, **total.env},
            path=(*total.path, *found.path),
            reach=tuple(dict.fromkeys((*total.reach, *found.reach))),
            companion={**found.companion, **total.companion},
            notes=(*total.notes, *found.notes),
        )
    return total, facts
