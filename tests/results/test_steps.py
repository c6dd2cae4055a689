import json
import zlib
from pathlib import Path

import pytest

from ptb_tui.core import clock, events
from ptb_tui.core.layout import Root, RunFiles, StepName
from ptb_tui.core.states import Strength
from ptb_tui.results.records import shown_step
from ptb_tui.results.steps import read_observed, read_steps
from tests.results.trees import step

AGENT, EVALUATE = StepName("agent"), StepName("evaluate")
JUDGE = StepName("judge", "general_judge")


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    return RunFiles(tmp_path / ".ptb")


def states(run: RunFiles) -> dict[str, str]:
    return {record.name: record.state for record in read_steps(run, {}).steps}


def test_an_absent_run_has_no_steps(run: RunFiles) -> None:
    assert read_steps(run, {}).steps == ()


def test_a_step_waits_until_others_have_ended_however(run: RunFiles) -> None:
    step(run, 1, AGENT, state="running")
    step(run, 2, EVALUATE, state="queued", wait=[{"kind": "after", "steps": ["agent"]}])
    assert states(run) == {"agent": "running", "evaluate#1": "waiting"}
    last = events.encode("ended", 9, {"outcome": "failed", "cause": "gpu"})
    with (run.steps / "001-agent" / "events.jsonl").open("ab") as log:
        log.write(last)
    assert states(run) == {"agent": "failed", "evaluate#1": "queued"}


@pytest.mark.parametrize(
    ("time", "state"),
    [("2999-01-01T00:00:00.000Z", "waiting"), ("2001-01-01T00:00:00.000Z", "queued"), ("?", "queued")],
)
def test_a_step_waits_for_its_time(run: RunFiles, time: str, state: str) -> None:
    step(run, 1, EVALUATE, state="queued", wait=[{"kind": "not_before", "time": time}])
    assert states(run) == {"evaluate#1": state}


def test_a_cancelled_run_never_starts(run: RunFiles) -> None:
    step(run, 1, AGENT, state="queued")
    run.cancel.write_text("{}")
    assert states(run) == {"agent": "cancelled"}


def test_the_exit_record_gives_the_duration(run: RunFiles) -> None:
    step(run, 1, EVALUATE, seconds=12.5)
    assert [record.seconds for record in read_steps(run, {}).steps] == [12.5]


def test_a_running_step_is_timed_by_this_boots_clock_only(run: RunFiles) -> None:
    step(run, 1, AGENT, state="running")
    (record,) = read_steps(run, {}).steps
    assert record.seconds is not None
    assert 0 <= record.seconds < 600
    other = run.steps / "002-evaluate-1"
    other.mkdir()
    (other / "step.json").write_text("{}")
    lines = []
    for seq, mono in ((1, 100.0), (2, 130.0)):
        body = json.loads(events.encode("started" if seq == 1 else "phase", seq, {}))
        body.pop("crc")
        text = json.dumps({**body, "mono": mono, "boot": "another"}, separators=(",", ":")).encode()
        lines.append(text[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(text[:-1]))
    (other / "events.jsonl").write_bytes(b"".join(lines))
    assert clock.boot_id() != "another"
    assert read_steps(run, {}).steps[1].seconds == 30.0


def test_what_heads_saw(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.own("observed").mkdir(parents=True)
    lost = {"step": "agent", "kind": "lost", "strength": 1, "why": "node gone", "seen": [1, 2], "seq": 1}
    held = {"step": "evaluate#1", "kind": "held", "strength": "answer", "why": "quota"}
    text = f"{json.dumps(lost)}\n\x00garbage\n[]\n{json.dumps(held)}\n{{torn"
    (root.own("observed") / "7.jsonl").write_text(text)
    found = read_observed(root, 7)
    assert [(seen.kind, seen.strength, seen.seen) for seen in found["agent"]] == [("lost", Strength.INFERENCE, (1, 2))]
    assert [(seen.kind, seen.strength, seen.why) for seen in found["evaluate#1"]] == [
        ("held", Strength.ANSWER, "quota")
    ]
    run = RunFiles(tmp_path / ".ptb")
    step(run, 1, AGENT, state="running")
    step(run, 2, EVALUATE, state="queued")
    assert [record.state for record in read_steps(run, found).steps] == ["lost", "held"]


def test_damage_is_told_and_survived(run: RunFiles) -> None:
    folder = step(run, 1, AGENT, state="running")
    (folder / "step.json").write_text("[" * 100_000)
    with (folder / "events.jsonl").open("ab") as log:
        log.write(b'{"torn')
    broken = run.steps / "002-evaluate-1"
    (broken / "events.jsonl").mkdir(parents=True)
    (broken / "step.json").mkdir()
    (broken / "exit.json").symlink_to("/etc/passwd")
    (run.steps / "003-judge-x-1").write_text("a file")
    (run.steps / "nonsense").mkdir()
    found = read_steps(run, {})
    assert [record.state for record in found.steps] == ["running", "queued", "queued"]
    assert len(found.problems) >= 4


def test_the_step_that_says_where_a_run_stands(run: RunFiles) -> None:
    step(run, 1, AGENT)
    step(run, 2, EVALUATE)
    step(run, 3, JUDGE, state="failed", cause="judge_failed")
    found = read_steps(run, {}).steps
    shown = shown_step(found)
    assert shown is not None and shown.name == "evaluate#1"
    step(run, 4, StepName("judge", "general_judge", 2), state="queued")
    shown = shown_step(read_steps(run, {}).steps)
    assert shown is not None and shown.name == "judge:general_judge#2"
    assert shown_step(()) is None


def test_a_failed_agent_is_what_matters(run: RunFiles) -> None:
    step(run, 1, AGENT, state="failed", cause="gpu")
    step(run, 2, EVALUATE, state="cancelled")
    shown = shown_step(read_steps(run, {}).steps)
    assert shown is not None and (shown.name, shown.cause) == ("agent", "gpu")
