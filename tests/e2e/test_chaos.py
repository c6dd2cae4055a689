"""Killed at any moment, by anybody: the agent goes on, nothing happens twice, nothing stays alive (local_queue C.6)."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core import clock, files
from ptb_tui.run import locks, processes
from tests.e2e.chaos import LINES, LONG, ChaosLab, identify, kill, place_scratch, supervisor_of
from tests.e2e.conftest import until

pytestmark = pytest.mark.chaos

ALL = "follower companion supervisor batch"

BEFORE = (
    "before agent claimed",
    "after agent claimed",
    "spawned step-prepare",
    "before rename .ptb",
    "after rename .ptb",
    "spawned shim agent",
)
DURING = ("before agent started", "after agent started", "spawned follow", "before agent phase-trace")
AFTER = (
    "after agent phase-trace",
    "spawned step-harvest",
    "before agent harvested",
    "after agent harvested",
    "before rename .001-agent.gone",
    "after rename .001-agent.gone",
    "before agent result",
    "before agent ended",
    "after agent ended",
)
EVALUATION = (
    "before evaluate-1 claimed",
    "after evaluate-1 claimed",
    "spawned shim",
    "before evaluate-1 started",
    "after evaluate-1 started",
    "before rename .002-evaluate-1.gone",
    "before evaluate-1 result",
    "before evaluate-1 ended",
    "after evaluate-1 ended",
)


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[ChaosLab]:
    lab = ChaosLab(tmp_path)
    yield lab
    lab.close()


@pytest.fixture
def several(tmp_path: Path) -> Iterator[ChaosLab]:
    lab = ChaosLab(tmp_path, slots=2)
    yield lab
    lab.close()


@pytest.mark.parametrize("victims", ["supervisor", "follower", "companion", "batch", ALL])
def test_the_agent_goes_on_and_every_line_is_there_once(chaos: ChaosLab, victims: str) -> None:
    batch = chaos.batch("lines600+model", protocol="barenet")
    try:
        scratch = until(lambda: next(chaos.base.glob("scratch/*/*/001-agent/shim.json"), None), "the shim", LONG).parent
        (run_id,) = chaos.ids()
        out = chaos.run_dir() / "solve_out.txt"
        until(lambda: out.exists() and out.read_bytes().count(b"\n") >= 20, "some lines in the trace", LONG)
        shim = files.read_object(scratch / "shim.json") or {}
        command = clock.process_from(shim["command"])
        assert command is not None
        talker = until(lambda: identify(chaos.pids("lines.py")), "the agent's own process")
        find: dict[str, Callable[[], clock.Process | None]] = {
            "supervisor": lambda: supervisor_of(chaos, run_id),
            "follower": lambda: identify(chaos.pids(" follow ")),
            "companion": lambda: identify(chaos.pids(" companion ")),
        }
        for victim in victims.split():
            if victim == "batch":
                kill(batch)
            else:
                kill(until(find[victim], victim, LONG))
            assert clock.alive(command) and clock.alive(talker), f"the agent died with the {victim}"
            if victim == "companion":
                until(find[victim], "another companion", LONG)
        if victims != "supervisor":  # there the batch, which still watches, sees to it
            chaos.run("queue", "--kick")
        else:
            until(lambda: batch.poll() is not None, "the batch to bring the run to its end", LONG)
            assert batch.returncode == 0
        if victims in ("follower", "companion", "batch"):
            until(lambda: chaos.over(run_id), "the run over without any help", LONG)
        chaos.finish(run_id)
    finally:
        kill(batch)
    chaos.check_scored(run_id, lines=600)
    assert chaos.starts.read_text().split() == ["lines600+model"]
    kinds = [event.kind for event in chaos.log(run_id)]
    assert len(chaos.run_dirs()) == 1 and kinds.count("started") == 1
    assert kinds.count("adopted") == ("supervisor" in victims)
    assert chaos.wait_event(run_id, "started").data["shim"], "the shim of the first supervisor saw it through"


@pytest.mark.parametrize("points", [BEFORE + DURING, AFTER, EVALUATION], ids=["start", "end", "evaluation"])
def test_killed_once_at_every_named_point(chaos: ChaosLab, points: tuple[str, ...]) -> None:
    chaos.own_program(*points)
    (run_id,) = chaos.submit("lines100+model")
    chaos.finish(run_id)
    assert chaos.reached() == set(points)
    chaos.check_scored(run_id, lines=100)
    assert len(chaos.run_dirs()) == 1 and chaos.starts.read_text().split() == ["lines100+model"]


@pytest.mark.parametrize("victim", ["shim", "everything"])
def test_a_killed_tree_is_host_lost_and_the_next_run_starts(chaos: ChaosLab, victim: str) -> None:
    lost, following = chaos.submit("lines50+daemon+sleep600", "model")
    shim = until(lambda: next(chaos.base.glob("scratch/*/*/001-agent/shim.json"), None), "the shim", LONG)
    out = chaos.run_dir() / "solve_out.txt"
    until(lambda: out.exists() and out.read_bytes().count(b"\n") == 50, "all lines in the trace", LONG)
    until(lambda: len(chaos.pids("sleep600")) + len(chaos.alive()) >= 3, "the daemon")
    record = files.read_object(shim) or {}
    above = clock.process_from(record["shim"])
    assert above is not None
    if victim == "everything":
        keeper = supervisor_of(chaos, lost)
        assert keeper is not None
        tree = [found for pid in processes.descendants(above.pid) if (found := clock.identify(pid)) is not None]
        for process in (keeper, above, *tree):
            processes.send_exactly(process, signal.SIGKILL)
    else:
        processes.send_exactly(above, signal.SIGKILL)
    chaos.finish(lost, following)
    assert chaos.state(lost) == ("failed", "host_lost")
    assert chaos.row(lost)["worth"] == "failed"
    trace = (chaos.files_of(lost).run_dir / "solve_out.txt").read_text().splitlines()
    assert [line.partition("] ")[2] for line in trace] == LINES[:50]
    chaos.check(lost)
    chaos.check_scored(following)
    assert not chaos.alive()


def test_an_agent_that_spoils_its_own_output_changes_nothing(chaos: ChaosLab) -> None:
    (run_id,) = chaos.submit("saystart+vandal+sayend+model")
    chaos.finish(run_id)
    trace = chaos.trace()
    assert [line for line in trace if line != "opened again"] == ["start", "before", "after", "end"], trace
    assert chaos.row(run_id)["worth"] == "scored"


@pytest.mark.parametrize("how", ["by itself", "deadline", "cancel"])
def test_nothing_is_left_alive(chaos: ChaosLab, how: str) -> None:
    chaos.own_program(grace_s=1.0)
    config, hours = ("daemon+model", 0.5) if how == "by itself" else ("daemon+model+sleep600", 0.5)
    (run_id,) = chaos.submit(config, hours=0.001 if how == "deadline" else hours)
    if how == "cancel":
        until(lambda: len(chaos.alive()) >= 3, "agent and daemon", LONG)
        chaos.run("cancel", str(run_id))
        chaos.run("cancel", str(run_id))
    chaos.finish(run_id)
    assert not chaos.alive()
    until(lambda: not [pid for pid in chaos.pids() if pid != os.getpid()], "the last dispatch ended")
    record = files.read_object(chaos.files_of(run_id).steps / "001-agent" / "exit.json") or {}
    assert record["left_alive"] == [] and record["stopped"] == ("" if how == "by itself" else how)
    expected = {"by itself": ("done", ""), "deadline": ("done", "agent_budget"), "cancel": ("cancelled", "operator")}
    assert chaos.state(run_id) == expected[how]
    assert (chaos.files_of(run_id).run_dir / "final_model" / "config.json").exists(), "what was made so far is kept"
    chaos.check(run_id)
    assert chaos.state(run_id, 2)[0] == ("cancelled" if how == "cancel" else "done")


def test_a_queued_run_is_cancelled_once(chaos: ChaosLab) -> None:
    running, queued = chaos.submit("sleep600", "model")
    chaos.wait_event(running, "started")
    for _ in range(2):
        chaos.run("cancel", str(queued), "--reason", "not needed")
    chaos.dispatch()
    until(lambda: chaos.over(queued), "the queued run over", LONG)
    assert chaos.files_of(queued).ptb.parent.name == "never_started" and not chaos.log(queued)
    assert not chaos.over(running)
    assert {chaos.state(queued, number)[0] for number in (1, 2)} == {"cancelled"}
    keeper = supervisor_of(chaos, running)
    assert keeper is not None
    kill(keeper)  # nobody looks after it when its end is asked for
    chaos.run("cancel", str(running))
    chaos.finish(running)
    assert chaos.state(running) == ("cancelled", "operator") and not chaos.alive()
    chaos.check(running)
    assert chaos.starts.read_text().split() == ["sleep600"]
    last = chaos.log(running)[-1]
    assert last.kind == "ended" and "cancelled by tester" in last.data["why"]


@pytest.mark.parametrize("then", ["goes on", "is killed"])
def test_cancelled_while_it_is_prepared(chaos: ChaosLab, then: str) -> None:
    chaos.own_program("stop spawned step-prepare")
    (run_id,) = chaos.submit("model")
    until(chaos.reached, "prepare under way", LONG)
    chaos.run("cancel", str(run_id))
    chaos.run("cancel", str(run_id))
    keeper = supervisor_of(chaos, run_id)
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL if then == "is killed" else signal.SIGCONT)
    chaos.finish(run_id)
    assert chaos.state(run_id) == ("cancelled", "operator")
    assert not chaos.run_dirs() and not chaos.starts.read_text() and not chaos.alive()
    chaos.check(run_id)
    assert [event.kind for event in chaos.log(run_id)].count("started") == 0
    scratch = place_scratch(chaos, run_id)
    assert not scratch.exists(), list(scratch.rglob("*"))


@pytest.mark.parametrize("seed", [1, 2])
def test_random_interleavings(several: ChaosLab, seed: int) -> None:
    """Submit, dispatch, kill and cancel in any order; then everything comes to exactly one end."""
    lab, chance = several, random.Random(seed)
    plain = ["model+lines30", "exit3", "daemon+say1+model", "lines60+model"]
    ids = lab.submit(*plain, hours=0.25)
    fresh = iter(range(1000))
    cancelled: set[int] = set()

    def kill_one(word: str) -> None:
        victim = identify(lab.pids(f" {word} "))
        if victim is not None:
            processes.send_exactly(victim, signal.SIGKILL)

    def dispatch_thrice() -> None:
        command = [*lab.command("dispatch"), str(lab.results)]
        started = [subprocess.Popen(command, cwd="/", env=lab.env) for _ in range(3)]
        assert [process.wait(LONG) for process in started] == [0, 0, 0]

    def cancel_one() -> None:
        run_id = chance.choice(ids)
        lab.run("cancel", str(run_id))
        cancelled.add(run_id)

    acts: list[tuple[Callable[[], Any], int]] = [
        (dispatch_thrice, 6),
        (lambda: kill_one("supervise"), 8),
        (lambda: kill_one("follow"), 3),
        (lambda: kill_one("step-prepare"), 1),
        (lambda: kill_one("dispatch"), 1),
        (cancel_one, 1),
        (lambda: ids.extend(lab.submit(f"say{next(fresh)}+model", name="more")), 1),
    ]
    for _ in range(20):
        chance.choices([act for act, _ in acts], [weight for _, weight in acts])[0]()
        busy = [name for name in range(5) if locks.busy(lab.root.state / f"slot-cpu-{name}.lock")]
        assert set(busy) <= {0, 1}
    lab.finish(*ids)
    starts = lab.starts.read_text().split()
    assert len(starts) == len(set(starts)), starts
    for run_id in ids:
        lab.check(run_id)
        state, cause = lab.state(run_id)
        assert (state, cause) in (("done", ""), ("done", "agent_exit"), ("cancelled", "operator")) or (
            cause == "prepare_failed"  # its program was killed, not its supervisor
        )
        assert state != "cancelled" or run_id in cancelled
    until(lambda: not lab.alive(), "nothing alive")
    assert len(lab.run_dirs()) == len(starts)
    assert not re.findall(r"Traceback", "".join(path.read_text() for path in lab.root.own("logs").glob("*.log")))
