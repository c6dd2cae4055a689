"""A step on a machine whose scratch others can write."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core import events
from ptb_tui.core.errors import StorageError
from ptb_tui.core.layout import Root, RunFiles, StepName
from ptb_tui.run import locks
from ptb_tui.run.stepping import Step


@dataclass
class Job:
    """A job whose programs must not be reached."""

    root: Root
    files: RunFiles
    scratch: Path
    run_id: int = 1
    slot: str = ""
    why_stop: str = ""
    lock_fds: list[int] = field(default_factory=lambda: [os.open(os.devnull, os.O_RDONLY)])
    spec: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def verb(self, name: str, *arguments: str | Path) -> list[str]:
        return [name, *map(str, arguments)]

    def child(self, log: Path, argv: list[str], limit: float) -> int:
        self.asked.append(argv[0])
        return 1


def step(tmp_path: Path) -> tuple[Job, Step]:
    root = Root(tmp_path / "results")
    files = root.queued(1)
    (files.steps / "001-agent").mkdir(parents=True)
    base = tmp_path / "base"
    base.mkdir(exist_ok=True)
    base.chmod(0o1777)
    job = Job(root, files, root.scratch(base, 1))
    return job, Step(job, StepName("agent"), "001-agent")


def test_a_scratch_that_somebody_else_made_is_not_used(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    job, found = step(tmp_path)
    planted = theirs / job.scratch.name / "001-agent"
    planted.mkdir(parents=True)
    (planted / "shim.json").write_text("{}")
    job.scratch.parent.symlink_to(theirs)
    outcome, cause, why = found.run()
    assert (outcome, cause) == ("failed", "prepare_failed") and "belongs to somebody else" in why
    assert [event.kind for event in events.read(found.folder).events] == ["ended"] and job.asked == []
    assert sorted(path.name for path in theirs.rglob("*")) == sorted([job.scratch.name, "001-agent", "shim.json"]), (
        "nothing there is touched"
    )


def test_ours_is_closed_to_others_and_used(tmp_path: Path) -> None:
    job, found = step(tmp_path)
    job.scratch.parent.mkdir(mode=0o755)
    found.run()
    assert stat.S_IMODE(job.scratch.parent.stat().st_mode) == 0o700 and job.asked == ["step-prepare"]


def test_the_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    (tmp_path / "x").mkdir(mode=0o700)
    os.chown(tmp_path / "x", 65534, 65534)
    with pytest.raises(StorageError, match="belongs to somebody else"):
        locks.own_folder(tmp_path / "x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError):
        locks.own_folder(tmp_path / "dangling")
