"""What starts jobs: local slots, HTCondor, Slurm (design §6, Backend). Implementations live in `backends/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Job:
    """What a scheduler sees: ordered steps of one run with the largest of their needs."""

    run_id: int
    token: str
    steps: tuple[int, ...]
    gpus: int
    seconds: float
    priority: int = 100


@dataclass(frozen=True, slots=True)
class Submission:
    """The outcome for one job. `created` is False when the token was known already."""

    job: Job
    handle: str = ""
    created: bool = True
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place where a job can run: `gpu:<uuid>` or `cpu:<n>`."""

    name: str
    busy: bool = False
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do; polling intervals in seconds."""

    name: str
    hold: bool = False
    priority: bool = True
    min_poll_s: float = 1.0
    max_hours: float | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """What a backend needs to know of its site: results root, the command that starts our verbs, its environment."""

    root: Path
    command: tuple[str, ...]
    slots: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)


class Backend(Protocol):
    """One scheduler. All calls are idempotent; a call that cannot know its outcome raises, it never guesses."""

    capabilities: Capabilities

    def submit(self, jobs: Sequence[Job]) -> list[Submission]:
        """Bring jobs to the scheduler, at most once per token."""
        ...

    def cancel(self, job: Job) -> None:
        """End a job; the durable request is already in `cancel.json`."""
        ...

    def capacity(self) -> list[Slot]:
        """Slots with their holders."""
        ...
