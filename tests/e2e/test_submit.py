"""Submitting: every cell once, whoever asks how often, at the same time, or is killed on the way."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.run import locks
from tests.e2e.conftest import Lab, until

pytestmark = pytest.mark.chaos

CELLS = 28
CONFIGS = tuple(f"exit0+say{number:02d}" for number in range(CELLS))


class Asker:
    """A command under way whose output, both kinds, goes to a file that can be read meanwhile."""

    def __init__(self, lab: Lab, name: str, *arguments: str) -> None:
        self.path = lab.base / f"{name}.out"
        with open(self.path, "wb") as out:
            self.process = lab.start(*arguments, stdout=out, stderr=out)

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(30)

    @property
    def text(self) -> str:
        return self.path.read_text()

    def said(self, words: str) -> re.Match[str]:
        """Wait until it has said these words (a regular expression)."""

        def there() -> re.Match[str] | None:
            found = re.search(words, self.text)
            assert found or self.process.poll() is None, self.text
            return found

        return until(there, f"{words!r} in {self.path.name}")  # type: ignore[no-any-return]

    def detach(self) -> str:
        """Press Ctrl-C; the exit code says that runs go on."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(30) == 130, self.text
        return self.text


def submit(lab: Lab, sweep: str, words: str) -> str:
    """Submit and leave; returns all that was said."""
    with Asker(lab, "submit", "--batch", sweep, "--yes") as asker:
        asker.said(words)
        return asker.detach()


@pytest.fixture
def slot(lab: Lab) -> Iterator[None]:
    """The only slot of the lab, held by us: what is submitted stays in the queue."""
    locks.state_folder(lab.root)
    fd = locks.take_slot(lab.root, "cpu:0")
    assert fd is not None
    yield
    os.close(fd)


def queued(lab: Lab) -> list[dict[str, Any]]:
    """Specs of everything in the queue; each must be whole."""
    specs = []
    for folder in sorted(lab.root.own("queue").iterdir()):
        if folder.name.startswith("."):
            continue
        spec = json.loads((folder / "spec.json").read_text())
        assert str(spec["id"]) == folder.name
        steps = sorted((folder / "steps").iterdir())
        assert steps[0].name.endswith("-agent") and len(steps) == 4
        assert all((step / "step.json").is_file() for step in steps), steps
        specs.append(spec)
    return specs


def each_cell_once(lab: Lab) -> list[dict[str, Any]]:
    specs = queued(lab)
    assert sorted(spec["config"] for spec in specs) == sorted(CONFIGS)
    ids = {spec["id"] for spec in specs}
    assert len(ids) == CELLS and ids <= set(lab.ids())
    tokens = {spec["token"]: spec["id"] for spec in specs}
    claimed = {path.name: json.loads(path.read_text())["id"] for path in lab.root.own("tokens").glob("[0-9a-f]*")}
    assert claimed == tokens, "every run is what its token stands for"
    assert len(lab.json("runs")[-1].get("runs", lab.json("runs"))) == CELLS
    return specs


def test_two_who_submit_at_once_make_each_cell_once(lab: Lab, slot: None) -> None:
    sweep = lab.sweep(*CONFIGS)
    batch = ("--batch", sweep, "--yes")
    with Asker(lab, "one", *batch) as one, Asker(lab, "two", *batch) as two:
        for asker in (one, two):
            told = asker.said(r"(\d+) submitted, (\d+) there\n")
            assert int(told[1]) + int(told[2]) == CELLS
        specs = each_cell_once(lab)
        for asker in (one, two):
            asker.said("queued")
            text = asker.detach()
            assert f"28 runs go on\n  come back with: python -m ptb_tui {' '.join(batch)}\n" in text, text
            assert all(str(spec["id"]) in text for spec in specs), "both were told of all runs"
    assert "28 running" in lab.run("--batch", sweep, "--dry-run")
    submit(lab, sweep, "queued")
    assert each_cell_once(lab) == specs
    assert not list(lab.root.own("queue").glob(".*"))


def test_killed_submitters_leave_nothing_half(lab: Lab, slot: None) -> None:
    sweep = lab.sweep(*CONFIGS)
    seed = random.randrange(1 << 32)
    print("seed", seed)  # shown when the test fails
    chance = random.Random(seed)
    for goal in sorted(chance.randrange(CELLS) for _ in range(4)):
        with Asker(lab, "killed", "--batch", sweep, "--yes") as asker:
            limit = time.monotonic() + 60
            while not lab.root.own("ids").is_dir() or len(lab.ids()) <= goal:
                assert asker.process.poll() is None and time.monotonic() < limit, asker.text
                time.sleep(chance.uniform(0.001, 0.01))
        queued(lab)
    submit(lab, sweep, "queued")
    each_cell_once(lab)


def test_a_submitter_killed_before_its_last_rename(lab: Lab, slot: None) -> None:
    """The token is linked, the run is not in the queue yet: the next one finishes that, or is told what differs."""
    sweep = lab.sweep("exit0")
    submit(lab, sweep, "1 submitted")
    [spec] = queued(lab)
    queue = lab.root.own("queue")
    (queue / str(spec["id"])).rename(queue / f".{spec['id']}")
    shutil.rmtree(lab.root.own("journal"))
    same = Path(sweep).read_text()
    Path(sweep).write_text(same + '[judging]\njudges = ["general_judge"]\n')
    with lab.start("--batch", sweep, "--yes") as process:
        lines = process.communicate(timeout=60)[1].decode().splitlines()
    assert process.returncode == 2 and not queued(lab), lines
    words = f"toy_exit0_0.5h / toy / local/toy-base was submitted before as run {spec['id']} with other settings"
    assert lines[0] == f"Conflicting request: {words}" and "experiment" in lines[1] and len(lines) == 2, lines
    Path(sweep).write_text(same)
    submit(lab, sweep, rf"run {spec['id']} .* known\n")
    assert queued(lab) == [spec] and not list(queue.glob(".[0-9]*"))


def test_what_has_passed_is_told_and_runs_go_on(lab: Lab) -> None:
    sweep = lab.sweep("model+saybegun+sleep6")
    with Asker(lab, "first", "--batch", sweep, "--yes") as asker:
        until(lambda: lab.run_dirs() and lab.step_scratch(), "a running agent")
        assert "1 run goes on" in asker.detach()
    with lab.start("--batch", sweep, "--yes", "--timeout", "1") as process:
        lines = process.communicate(timeout=60)[1].decode().splitlines()
    assert process.returncode == 4 and lines[-2].startswith("Time is up: "), lines
    assert lines[-1].startswith("  come back with: ") and lines[-1].endswith("--timeout 1"), lines
    table = lab.run("--batch", sweep, "--yes")
    assert "75.0 %" in table and len(lab.ids()) == 1 and len(lab.run_dirs()) == 1
    assert lab.trace() == ["begun"]


def test_other_attempts_never_displace_a_result(lab: Lab) -> None:
    sweep = lab.sweep("model")
    lab.run("--batch", sweep, "--yes")
    [first] = lab.ids()
    scores = lab.run("scores")
    assert "75.0 %" in scores
    fd = until(lambda: locks.take_slot(lab.root, "cpu:0"), "a free slot")
    try:
        lab.run("retry", str(first), "--yes", rc=2)
        lab.run("retry", str(first), "--reason", "to be sure", "--yes")
        second = lab.ids()[-1]
        assert second != first and lab.run("scores") == scores, "a queued retry is no result"
        assert "1 exist" in lab.run("--batch", sweep, "--yes")
        lab.run("cancel", str(second), "--yes")
        assert lab.run("scores") == scores
    finally:
        os.close(fd)
    lab.run("queue", "--kick")
    until((lab.root.own("never_started") / str(second)).is_dir, "the cancelled run out of the queue")
    assert lab.run("scores") == scores and len(lab.run_dirs()) == 1
    states = {row["id"]: row["state"] for line in lab.json("runs") for row in line.get("runs", [line])}
    assert states == {first: "done", second: "cancelled"}
    assert "1 exist" in lab.run("--batch", sweep, "--yes") and lab.ids() == [first, second]


def test_other_settings_of_a_cell_that_is_there_are_told(lab: Lab, slot: None) -> None:
    sweep = lab.sweep("exit0", "exit1")
    submit(lab, sweep, "2 submitted")
    notes = []
    for more in ("", '[judging]\njudges = ["general_judge"]\n'):
        Path(sweep).write_text(Path(sweep).read_text() + more)
        with lab.start("--batch", sweep, "--dry-run") as process:
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and b"2 running" in out, err
        notes.append(err.decode().splitlines())
    assert notes[0] == []
    assert len(notes[1]) == 2 and "toy_exit0_0.5h" in notes[1][0] and "another judges" in notes[1][0], notes[1]
    assert all("experiment" in note for note in notes[1])


def test_repeats_are_cells_of_their_own(lab: Lab, slot: None) -> None:
    submit(lab, lab.sweep("exit0", repeats=3, hours=0.01), "3 submitted")
    methods = sorted(spec["method"] for spec in queued(lab))
    assert methods == ["toy_exit0_0.01h", "toy_exit0_0.01h_r2", "toy_exit0_0.01h_r3"]
