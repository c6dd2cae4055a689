"""Dispatching with the real program: slots, order, limits, and two who dispatch at once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from ptb_tui.core import events
from ptb_tui.core.layout import RunFiles
from ptb_tui.results.steps import fold_steps
from ptb_tui.run import locks
from tests.e2e.conftest import Lab, until

LONG = 240.0
SLOTS = 3


class Queue(Lab):
    """A lab whose runs wait in the queue until they are let go; its agents log when they start and end."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        config = base / "config" / "ptb-tui" / "config.toml"
        config.write_text(config.read_text().replace("[sites.local]\n", f"[sites.local]\nslots = {SLOTS}\n"))
        self.diary = base / "diary"
        self.diary.write_text("")
        solve = self.cwd / "agents" / "toy" / "solve.sh"
        note = f'trap \'echo "- $AGENT_CONFIG" >> {self.diary}\' EXIT\necho "+ $AGENT_CONFIG" >> {self.diary}\n'
        solve.write_text(solve.read_text().replace("set -u\n", f"set -u\n{note}"))
        protocol = self.cwd / "tasks" / "protocols" / "bare.toml"
        toy = (protocol.parent / "toy.toml").read_text().replace('"toy"', '"bare"', 1)
        protocol.write_text(toy.partition("[[judges]]")[0])
        self.lock = -1

    def hold(self) -> None:
        """Be the one who dispatches, and start nothing."""
        self.lock = until(
            lambda: locks.take(locks.state_folder(self.root) / "dispatch.lock"), "the dispatch lock", LONG
        )

    def let_go(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def submit(self, *configs: str, name: str = "toy", tables: str = "", **keys: object) -> None:
        path = Path(self.sweep(*configs, name=name, protocol="bare", **keys))
        path.write_text(path.read_text() + tables)
        before = len(self.receipts())
        batch = self.start("--batch", str(path), "--yes", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: len(self.receipts()) > before, "the receipt", LONG)
        finally:
            batch.kill()
            batch.wait()

    def receipts(self) -> list[Path]:
        return list(self.root.own("journal").glob("*.json"))

    def dispatch(self, times: int = 1) -> None:
        command = [*self.command("dispatch"), str(self.results)]
        started = [subprocess.Popen(command, cwd="/", env=self.env, stdout=subprocess.DEVNULL) for _ in range(times)]
        assert [process.wait(LONG) for process in started] == [0] * times

    def runs(self) -> list[RunFiles]:
        return [RunFiles(path.parent) for path in sorted(self.results.glob("*/*/.ptb/spec.json"))]

    def all_over(self, count: int) -> bool:
        runs = self.runs()
        return len(runs) == count and all(step.over for run in runs for step in fold_steps(run, {}))

    def entries(self) -> list[tuple[str, str]]:
        return [(line[0], line[2:]) for line in self.diary.read_text().splitlines()]

    def most_at_once(self, prefix: str = "") -> int:
        """Agents at work at the same time, by what they wrote themselves."""
        now = most = 0
        for sign, config in self.entries():
            if config.startswith(prefix):
                now += 1 if sign == "+" else -1
                most = max(most, now)
        return most

    def work(self) -> list[tuple[str, float, float]]:
        """Slot, begin and end of every job on the clock of this boot."""
        found = []
        for run in self.runs():
            logs = [events.read(folder).events for _, _, folder in run.step_folders()]
            claims = [event for log in logs for event in log if event.kind in ("claimed", "adopted")]
            ends = [event.mono for log in logs for event in log if event.kind == "ended"]
            assert len({event.data["slot"] for event in claims}) == 1 and len(ends) == len(logs)
            found.append((str(claims[0].data["slot"]), claims[0].mono, max(ends)))
        return found


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    lab = Queue(tmp_path)
    yield lab
    lab.let_go()
    lab.close()


def test_two_dispatchers_give_three_slots_to_twenty_eight_runs(queue: Queue) -> None:
    configs = [f"say{number}+exit0" for number in range(28)]
    queue.hold()
    queue.submit(*configs)
    assert len(queue.ids()) == len(configs) and not queue.run_dirs(), "nobody dispatched yet"
    queue.let_go()

    looked = -1

    def done() -> bool:
        nonlocal looked
        busy = [name for name in range(SLOTS + 2) if locks.busy(queue.root.state / f"slot-cpu-{name}.lock")]
        assert len(busy) <= SLOTS
        if queue.all_over(len(configs)):
            return True
        if not busy or looked != (
            looked := len(queue.entries())
        ):  # at each start and end, beside the dispatch of the run itself
            queue.dispatch(2)
        return False

    until(done, "all runs over", LONG)
    started = [config for sign, config in queue.entries() if sign == "+"]
    assert sorted(started) == sorted(configs), "each agent starts exactly once"
    assert queue.most_at_once() <= SLOTS
    work = queue.work()
    assert {slot for slot, _, _ in work} == {f"cpu:{number}" for number in range(SLOTS)}
    for slot in {slot for slot, _, _ in work}:
        spans = sorted((begin, end) for used, begin, end in work if used == slot)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans)), f"{slot} was shared"
    for run in queue.runs():
        kinds = [event.kind for event in events.read(run.steps / "001-agent").events]
        assert (kinds.count("claimed"), kinds.count("started"), kinds.count("ended")) == (1, 1, 1), kinds
    until(lambda: not any(locks.busy(queue.root.state / f"slot-cpu-{n}.lock") for n in range(SLOTS)), "free slots")


def test_higher_priority_first_then_older(queue: Queue) -> None:
    (queue.root.ptb).mkdir(parents=True)
    (queue.root.ptb / "site.toml").write_text('slots = 1\nsandbox = "process"\n')
    queue.hold()
    queue.submit("say1", "say2", name="usual")
    queue.submit("say3", name="urgent", priority=200)
    queue.submit("say4", name="later", priority=1)
    queue.let_go()
    queue.dispatch()
    until(lambda: queue.all_over(4), "all runs over, each started by the one before", LONG)
    assert [config for sign, config in queue.entries() if sign == "+"] == ["say3", "say1", "say2", "say4"]


def test_a_sweep_keeps_to_its_own_limit_and_leaves_slots_to_others(queue: Queue) -> None:
    queue.hold()
    queue.submit(
        "saya1+sleep0.5", "saya2+sleep0.5", "saya3+sleep0.5", name="few", tables="[limits]\nmax_parallel = 1\n"
    )
    queue.submit("sayb1+sleep3", name="others")
    queue.let_go()
    queue.dispatch()
    until(lambda: queue.all_over(4), "all runs over, each started by the one before", LONG)
    assert queue.most_at_once("saya") == 1
    first, second, *_ = sorted(queue.work(), key=lambda job: job[1])
    assert first[0] != second[0] and second[1] < first[2], "the other sweep gets the free slot at once"
