"""Where things are on disk (design §5, H §1.13): the results root, `_ptb/`, a run and its steps.

Standard library alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from ptb_tui.core.errors import NotFound

_STEP = re.compile(r"([0-9]{3,})-(?:(agent)|(evaluate)-([1-9][0-9]*)|(judge)-([A-Za-z0-9_.]+)-([1-9][0-9]*))")


@dataclass(frozen=True, slots=True)
class StepName:
    """A step of a run: `agent`, `judge:<judge>#<n>`, `evaluate#<n>`."""

    kind: str  # agent | judge | evaluate
    judge: str = ""
    n: int = 1

    def __str__(self) -> str:
        if self.kind == "agent":
            return "agent"
        return f"judge:{self.judge}#{self.n}" if self.kind == "judge" else f"evaluate#{self.n}"

    def folder(self, number: int) -> str:
        """The step's folder name below `.ptb/steps/`; `number` counts the steps of a run from 1."""
        if self.kind == "agent":
            return f"{number:03d}-agent"
        middle = f"judge-{self.judge}" if self.kind == "judge" else "evaluate"
        return f"{number:03d}-{middle}-{self.n}"


def parse_step_folder(name: str) -> tuple[int, StepName] | None:
    """Read a step folder name; None when it is not one."""
    match = _STEP.fullmatch(name)
    if not match:
        return None
    number = int(match[1])
    if match[2]:
        return number, StepName("agent")
    if match[3]:
        return number, StepName("evaluate", n=int(match[4]))
    return number, StepName("judge", match[6], int(match[7]))


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Our files of one run. `ptb` is `<run directory>/.ptb`, or `_ptb/queue/<id>` until the agent starts."""

    ptb: Path

    @property
    def started(self) -> bool:
        """Whether this run has a run directory, that is, its agent was started."""
        return self.ptb.name == ".ptb"

    @property
    def run_dir(self) -> Path:
        """The public run directory. NotFound before the agent starts."""
        if not self.started:
            raise NotFound(f"{self.ptb} has no run directory: its agent was not started")
        return self.ptb.parent

    @property
    def spec(self) -> Path:
        """`spec.json`, immutable."""
        return self.ptb / "spec.json"

    @property
    def steps(self) -> Path:
        """The folder of all steps."""
        return self.ptb / "steps"

    @property
    def cancel(self) -> Path:
        """`cancel.json`, created exclusively by whoever cancels."""
        return self.ptb / "cancel.json"

    @property
    def fence(self) -> Path:
        """`fence.json`: a returning supervisor must stop."""
        return self.ptb / "fence.json"

    @property
    def verdicts(self) -> Path:
        """Every verdict ever given, by judge."""
        return self.ptb / "verdicts"

    @property
    def reviews(self) -> Path:
        """Decisions of people, one immutable file each."""
        return self.ptb / "reviews"

    @property
    def trace_index(self) -> Path:
        """Row index of the trace, written by whoever parsed it."""
        return self.ptb / "trace.idx"

    def step_folders(self) -> list[tuple[int, StepName, Path]]:
        """All steps in order: number, name, folder."""
        try:
            names = os.listdir(self.steps)
        except OSError:
            return []
        found = [(parsed[0], parsed[1], self.steps / name) for name in names if (parsed := parse_step_folder(name))]
        return sorted(found, key=lambda item: item[0])


@dataclass(frozen=True, slots=True)
class Root:
    """A results root and everything of ours in it."""

    path: Path

    @property
    def ptb(self) -> Path:
        """Our folder at the root; the original's tools skip names that begin with an underscore."""
        return self.path / "_ptb"

    def own(self, name: str) -> Path:
        """A folder of ours: ids, tokens, queue, never_started, live, bundles, sweeps, journal, observed, cache …"""
        return self.ptb / name

    def queued(self, run_id: int) -> RunFiles:
        """The run's files before its agent starts."""
        return RunFiles(self.ptb / "queue" / str(run_id))

    def run(self, method: str, run: str) -> RunFiles:
        """The run's files once its agent started."""
        return RunFiles(self.path / method / run / ".ptb")

    def live(self, run_id: int) -> Path:
        """Pointer file of a started run that still has steps to do; holds the path of its `.ptb` below the root."""
        return self.ptb / "live" / str(run_id)

    @property
    def state(self) -> Path:
        """Locks of this user for this root on this machine's own disk; may be deleted when nothing runs."""
        digest = hashlib.sha256(os.fsencode(self.path.resolve())).hexdigest()[:16]
        return Path(f"/var/tmp/ptb-{os.getuid()}") / digest

    def scratch(self, base: Path, run_id: int) -> Path:
        """Node-local scratch of a run."""
        return base / f"ptb-{os.getuid()}" / f"{self.state.name}-{run_id}"


def allocate_id(root: Root) -> int:
    """A run id that is unique over the results root, whoever asks at the same time: exclusive mkdir (design §5)."""
    folder = root.own("ids")
    folder.mkdir(parents=True, exist_ok=True)
    highest = max((int(name) for name in os.listdir(folder) if name.isdigit()), default=0)
    candidate = max(int(time.time()), highest + 1)
    while True:
        try:
            os.mkdir(folder / str(candidate))
            return candidate
        except FileExistsError:
            candidate += 1
