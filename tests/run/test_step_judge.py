"""The step `judge`: the rules engine on a real run directory, and every way not to get a verdict (case A09)."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.step import StepSpec
from ptb_tui.core.verdict import EngineResult, VerdictState
from ptb_tui.run.steps import judge
from tests.evaluation.models import model
from tests.run.step_world import World, build, reference_of

JUDGE = "data_contamination_judge"


def items(count: int) -> list[dict[str, str]]:
    return [
        {
            "question": f"Ruth owns {311 + 7 * n} cups of shape {n} and gets {211 + 5 * n} more cups from her uncle. "
            "How many cups does Ruth have now?",
            "answer": str(522 + 12 * n),
        }
        for n in range(count)
    ]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = build(tmp_path)
    (world.content / "tasks" / "stand" / "test_data.json").write_text(json.dumps(items(30)))
    spec = json.loads((world.ptb / "spec.json").read_text())
    spec["protocol"] = reference_of(world.content, "stand", "stand")
    (world.ptb / "spec.json").write_text(json.dumps(spec))
    stamp = "[2026-08-01T09:00:05Z] "
    lines = [
        {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "cwd": "/home/ben/task"},
        {"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "working"}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s"},
    ]
    (world.run_dir / "solve_out.txt").write_text("".join(stamp + json.dumps(line) + "\n" for line in lines))
    (world.run_dir / "solve_parsed.txt").write_text("working\n")
    model(world.run_dir / "final_model")
    return world


def ask(world: World, n: int = 1, name: str = JUDGE, **spec: Any) -> tuple[int, dict[str, Any], str]:
    folder = world.step(f"{n + 1:03d}-judge-{name}-{n}", kind="judge", judge=name, engine="rules", n=n, **spec)
    return world.run("judge", folder)


def record(world: World, number: int = 1, name: str = JUDGE) -> dict[str, Any]:
    path = world.ptb / "verdicts" / name / f"{number:03d}.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_clean_run(world: World) -> None:
    status, result, out = ask(world)
    assert status == 0, (result, out)
    assert result["state"] == "clean" and result["flagged"] == [] and result["record"] == 1
    kept = record(world)
    assert kept["engine"] == "rules" and kept["step"] == f"judge:{JUDGE}#1" and len(kept["evidence_hash"]) == 64
    public = json.loads((world.run_dir / "judgement_gpt5_4.json").read_text())
    assert public["contamination"] is False and public["_meta"]["engine"] == "rules"


def test_test_items_in_the_training_data_are_flagged(world: World) -> None:
    (world.run_dir / "task" / "train_data.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items(20)))
    status, result, _ = ask(world)
    assert status == 0 and result["state"] == "flagged" and result["flagged"] == ["contamination"]
    assert any(finding["file"].endswith("train_data.jsonl") for finding in record(world)["findings"])


def test_another_opinion_is_kept_beside_the_first(world: World) -> None:
    ask(world)
    first = (world.run_dir / "judgement_gpt5_4.json").read_bytes()
    (world.run_dir / "task" / "train_data.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items(20)))
    status, result, _ = ask(world, 2)
    assert status == 0 and result["record"] == 2
    assert (world.run_dir / "judgement_gpt5_4.json").read_bytes() == first
    assert json.loads((world.run_dir / "judgement_gpt5_4_rerun.json").read_text())["contamination"] is True


def test_the_hash_says_which_evidence_was_shown(world: World) -> None:
    ask(world)
    (world.run_dir / "solve_out.txt").write_text("another trace\n")
    ask(world, 2)
    assert record(world)["evidence_hash"] != record(world, 2)["evidence_hash"]


def test_without_a_task_folder_there_is_no_verdict(world: World) -> None:
    (world.run_dir / "task").rename(world.run_dir / "gone")
    status, result, _ = ask(world)
    assert status == 1 and result["cause"] == "judge_failed" and "task folder" in result["why"]
    assert record(world)["state"] == "missing" and not (world.run_dir / "judgement_gpt5_4.json").exists()


def test_links_are_no_evidence(world: World, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret words")
    (world.run_dir / "solve_out.txt").unlink()
    (world.run_dir / "solve_out.txt").symlink_to(tmp_path / "secret")
    (world.run_dir / "task").rename(world.run_dir / "gone")
    (world.run_dir / "task").symlink_to(tmp_path)
    status, result, out = ask(world)
    assert status == 1 and "secret" not in out + json.dumps(result) + json.dumps(record(world))


def test_an_engine_that_is_not_here(world: World) -> None:
    folder = world.step(f"002-judge-{JUDGE}-1", kind="judge", judge=JUDGE, engine="oracle")
    status, result, _ = world.run("judge", folder)
    assert status == 1 and result["cause"] == "cli_missing" and "oracle" in result["why"]
    assert not (world.ptb / "verdicts").exists()


@pytest.mark.parametrize("name", ["api_usage_judge", "ptb_lookup_judge", "general_judge"])
def test_the_other_judges(world: World, name: str) -> None:
    status, result, out = ask(world, name=name)
    assert status == 0, (result, out)
    assert result["state"] in ("clean", "flagged") and record(world, name=name)["engine"] == "rules"


def test_an_unknown_judge_and_a_broken_step(world: World) -> None:
    status, result, _ = ask(world, name="no_such_judge")
    assert status == 1 and "no_such_judge" in result["why"]
    folder = world.step("009-judge-x-1", kind="judge")
    (folder / "step.json").write_text("[]")
    status, result, _ = world.run("judge", folder)
    assert status == 1 and "step.json" in result["why"]


def test_the_clock_interrupts_any_engine() -> None:
    def slow() -> EngineResult:
        while True:
            try:
                time.sleep(600)
            except Exception as error:  # an engine that swallows what it can
                print(error)

    result = judge.within(0.2, slow)
    assert result.state is VerdictState.TIMED_OUT and "0.2 s" in result.reason
    fast = judge.within(600, lambda: EngineResult(VerdictState.CLEAN))
    assert fast.state is VerdictState.CLEAN


def test_a_judge_that_runs_out_of_time_says_so(world: World) -> None:
    os.mkfifo(world.run_dir / "task" / "pipe")
    with open(world.run_dir / "task" / "train_data.jsonl", "w") as file:
        for n in range(40_000):
            file.write(json.dumps({"question": f"word{n} " * 300}) + "\n")
    status, result, _ = ask(world, limit_s=0.8)
    assert status == 1 and result["cause"] == "judge_timeout"
    assert record(world)["state"] == "timed_out"


@pytest.mark.parametrize(("limit", "expected"), [(10, 8), (100, 80), (120, 100), (100_000, 3000)])
def test_the_engine_ends_before_the_step(limit: float, expected: float) -> None:
    from ptb_tui.content.judges import load_judge
    from ptb_tui.content.lookup import Content

    found = load_judge(Content.of(), JUDGE)
    step = StepSpec(kind="judge", judge=JUDGE, limit_s=limit)
    assert judge.time_limit(step, found) == pytest.approx(expected)
