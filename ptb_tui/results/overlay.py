"""What we know of runs that we do not write to: those of others, and those of roots that are only read (design §5).

`<our root>/_ptb/overlay/<method>/<run>/` lies over a run's directory and has its layout: judgement files, and `.ptb/`
with verdicts, reviews and steps. A reader takes a file of the overlay where there is one, else the run's. Method and
run name alone are the key, so that decisions follow a tree that is copied or mounted elsewhere.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ptb_tui.core.errors import NotAllowed
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.text import sanitize
from ptb_tui.results.records import RunRecord


@dataclass(frozen=True, slots=True)
class Overlay:
    """The overlay of one results root of ours, over its own tree and over every root that is read beside it."""

    home: Root

    def files(self, relative: str) -> RunFiles:
        """Our files of a run in the overlay; `run_dir` of it is the folder that lies over the run's directory."""
        return RunFiles(self.home.own("overlay") / relative / ".ptb")

    def covers(self, root: Path, ours: bool) -> bool:
        """Whether a run is added to in the overlay; else in its own directory. `ours`: it has a `.ptb`."""
        return not ours or root != self.home.path

    def layers(self, root: Path, relative: str, ours: bool) -> tuple[Path, ...]:
        """Where what is known of a run is looked for, the strongest first."""
        tree = root / relative
        return (self.files(relative).ptb.parent, tree) if self.covers(root, ours) else (tree,)

    def layers_of(self, record: RunRecord) -> tuple[Path, ...]:
        """The same for a run that was read. Runs that have no directory yet have one layer, their `_ptb` folder."""
        if record.place != "run":
            return (record.path,)
        return self.layers(record.root, record.relative, not record.foreign)

    def writes(self, record: RunRecord) -> RunFiles:
        """Where verdicts and decisions about a run are written. NotAllowed when it has no directory, or our own root
        may only be read."""
        if record.place != "run":
            raise NotAllowed(f"run {record.id} never started: there is nothing to decide about")
        if not os.access(self.home.path, os.W_OK):
            raise NotAllowed(
                f"{self.home.path} may only be read",
                hint="name it in POST_TRAIN_BENCH_EXTRA_RESULTS_DIRS, and a folder of yours as the results root",
            )
        if self.covers(record.root, not record.foreign):
            return self.files(record.relative)
        return RunFiles(record.path / ".ptb")


def place(path: str, tree: Path) -> str:
    """Where a file is, for people: below the run's directory, or absolute; empty for none."""
    return sanitize(path.removeprefix(f"{tree}/"), limit=300, newlines=False)
