"""The step `evaluate`, with real evaluators in real processes (E §9 item 14; cases A20, C01, C02)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from ptb_tui.core import clock
from ptb_tui.evaluation import fingerprint
from ptb_tui.run.steps.attempt import keep_inspect_logs
from tests.run.step_world import build

LADDER = "ladder = [{tries = 2}, {max_tokens = 30, tries = 1}]"


def test_every_seed_is_measured(tmp_path: Path) -> None:
    world = build(tmp_path, plan={}, final=LADDER)
    status, result, out = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 0 and result["outcome"] == "done" and result["cause"] == ""
    metrics = world.metrics()
    assert metrics["accuracy"] == pytest.approx(0.5015) and metrics["stderr"] == 0.1
    assert metrics["num_seeds"] == metrics["num_seeds_succeeded"] == 2 and set(metrics["per_seed"]) == {"1", "2"}
    assert result["model_digest"] == fingerprint.of_folder(world.run_dir / "final_model")[0]
    assert result["stage"] == 0 and result["seeds"] == [1, 2] and len(result["attempts"]) == 2
    assert result["versions"]["python"] and len(result["template"]["sha256"]) == 64
    names = set(os.listdir(world.run_dir / "evaluation"))
    assert {"metrics_seed1.json", "metrics_seed2.json", "final_eval_seed1_1.txt", "inspect_logs"} <= names
    assert "seed 1: attempt 1 of 3" in out and os.listdir(world.scratch) == []


def test_what_the_evaluator_sees(tmp_path: Path) -> None:
    world = build(tmp_path, plan={}, final="limit = 5")
    world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"), OPENAI_API_KEY="sk-secret")
    seen = world.seen(1)
    assert "OPENAI_API_KEY" not in seen["env"] and seen["env"]["PTB_BASE_MODEL"] == "local/base"
    assert seen["env"]["HF_HUB_OFFLINE"] == "1" and seen["env"]["OMP_NUM_THREADS"] == "1"
    assert seen["home"] == ["task", "test_data.json"] and "sk-secret" not in json.dumps(seen)
    assert seen["argv"][1:5] == ["--model-path", str(world.run_dir / "final_model"), "--templates-dir", "templates/"]
    assert world.metrics()["per_seed"]["1"]["metrics"]["limit"] == 5


def test_no_model_and_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    world = build(tmp_path)
    (world.ptb / "harvest.json").write_text('{"model_why": "final_model is a link that leads nowhere"}')
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 1 and result["cause"] == "no_model" and "leads nowhere" in result["why"]
    (world.run_dir / "final_model").mkdir()
    status, result, _ = world.run("evaluate", world.step("003-evaluate-2", kind="evaluate"))
    assert status == 1 and result["cause"] == "invalid_model" and "config.json" in result["why"]
    assert not (world.run_dir / "evaluation").exists() and not (world.run_dir / "metrics.json").exists()


def test_the_same_crash_again_and_again_stops_early(tmp_path: Path) -> None:
    world = build(tmp_path, plan={"*": "crash"})
    folder = world.step("002-evaluate-1", kind="evaluate")
    status, result, out = world.run("evaluate", folder)
    assert status == 1 and result["cause"] == "eval_failed" and "cannot serve" in result["why"]
    assert len(result["attempts"]) == 3 and not (world.run_dir / "metrics.json").exists()
    progress = json.loads((folder / "progress.json").read_text())
    assert progress["attempt"] == 3 and progress["of"] == 9 and "cannot serve" in progress["last"]
    assert "cannot serve" in (world.run_dir / "evaluation" / "final_eval_seed1_3.txt").read_text()
    assert "failed after" in out


def test_a_lower_limit_is_used_and_recorded(tmp_path: Path) -> None:
    world = build(tmp_path, plan={"1:0": "crash", "2:30": '{"accuracy": true}'}, final=LADDER)
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 0 and result["stage"] == 1 and result["seeds_measured"] == [1]
    metrics = world.metrics()
    assert metrics["num_seeds"] == 2 and metrics["num_seeds_succeeded"] == 1
    assert metrics["per_seed"]["1"]["max_tokens_stage"] == 1
    assert result["attempts"][-1]["why"] == "the metrics have no number `accuracy`"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"accuracy": NaN}', '{"accuracy": 7}', "[" * 100_000])
def test_bad_metrics_are_no_score(tmp_path: Path, content: str) -> None:
    world = build(tmp_path, plan={"*": content}, final="ladder = [{tries = 1}]")
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 1 and result["cause"] == "eval_failed" and not (world.run_dir / "metrics.json").exists()


def test_a_hanging_attempt_is_ended(tmp_path: Path) -> None:
    world = build(tmp_path, plan={"*": "hang"}, final="attempt_timeout_s = 1.5\nladder = [{tries = 1}]")
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 1 and result["attempts"][0]["timed_out"] and "1.5 s" in result["why"]


def test_an_evaluation_ends_before_its_step(tmp_path: Path) -> None:
    world = build(tmp_path, plan={"*": "hang"})
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate", limit_s=2))
    assert status == 1 and result["cause"] == "step_limit" and len(result["attempts"]) == 1
    assert "used up" in result["why"]


def test_a_daemon_that_ignores_term_dies_with_its_attempt(tmp_path: Path) -> None:
    mark = tmp_path / "daemon.pid"
    daemon = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(mark)!r} + '.tmp', 'w').write(str(os.getpid())); os.rename({str(mark)!r} + '.tmp', {str(mark)!r})\n"
        "time.sleep(600)"
    )
    plan = {"1:0": "daemon", "daemon": daemon}
    world = build(tmp_path, plan=plan, final="ladder = [{tries = 1}]")
    status, _, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 0
    if mark.exists():  # it may have been killed before it could write
        assert clock.identify(int(mark.read_text())) is None


def test_another_evaluation_leaves_the_first_in_place(tmp_path: Path) -> None:
    world = build(tmp_path, plan={}, final="ladder = [{tries = 1}]")
    world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    before = world.metrics()
    shutil.rmtree(world.content / "tasks" / "shared")
    status, result, _ = world.run("evaluate", world.step("003-evaluate-2", kind="evaluate", n=2))
    assert status == 1 and result["output"] == "evaluation_2"
    assert world.metrics() == before and (world.run_dir / "evaluation" / "metrics_seed1.json").is_file()


def test_a_model_that_changed_after_its_harvest_gets_no_score(tmp_path: Path) -> None:
    world = build(tmp_path, plan={})
    (world.ptb / "final_model.json").write_text('{"digest": "another"}')
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 1 and result["cause"] == "unknown" and "changed" in result["why"]


def test_logs_of_an_attempt_are_not_looked_for_behind_links(tmp_path: Path) -> None:
    other = tmp_path / "other" / "logs"
    other.mkdir(parents=True)
    (other / "secret").write_text("of the operator")
    home = tmp_path / "home"
    (home / "task").mkdir(parents=True)
    (home / "task" / "logs").symlink_to(other)
    keep_inspect_logs(home, tmp_path / "kept")
    (home / "task").rename(home / "was")
    (home / "task").symlink_to(other.parent)
    keep_inspect_logs(home, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    (home / "task").unlink()
    logs = home / "task" / "logs"
    logs.mkdir(parents=True)
    (logs / "link").symlink_to(other / "secret")
    os.mkfifo(logs / "pipe")
    (logs / "log.json").write_text("{}")
    keep_inspect_logs(home, tmp_path / "kept")
    assert [(path.name, path.read_text()) for path in (tmp_path / "kept").iterdir()] == [("log.json", "{}")]


def test_a_greedy_model_needs_one_seed(tmp_path: Path) -> None:
    world = build(tmp_path, plan={})
    (world.run_dir / "final_model" / "generation_config.json").write_text('{"temperature": 0.0}')
    _, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert result["seeds"] == [1] and result["temperature"] == 0.0 and world.metrics()["num_seeds"] == 1


def test_killed_in_the_middle_it_leaves_no_score(tmp_path: Path) -> None:
    world = build(tmp_path, plan={"2:0": "hang"})
    folder = world.step("002-evaluate-1", kind="evaluate")
    child = world.start("evaluate", folder)
    limit = time.monotonic() + 60
    while not (world.run_dir / "evaluation" / "final_eval_seed2_1.txt").exists() and time.monotonic() < limit:
        time.sleep(0.01)
    from ptb_tui.run import processes

    for pid in (*processes.descendants(child.pid), child.pid):
        processes.send(pid, signal.SIGKILL)
    child.communicate()
    assert (world.run_dir / "evaluation" / "metrics_seed1.json").exists()
    assert not (world.run_dir / "metrics.json").exists()


def test_unreadable_spec_and_unknown_task(tmp_path: Path) -> None:
    world = build(tmp_path, plan={})
    shutil.rmtree(world.content / "tasks" / "stand")
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 1 and result["cause"] == "unknown" and "stand" in result["why"]
    (world.ptb / "spec.json").write_text("{")
    status, result, _ = world.run("evaluate", world.step("003-evaluate-2", kind="evaluate"))
    assert status == 1 and "spec.json" in result["why"]


@pytest.mark.bubblewrap
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
def test_in_a_sandbox_of_its_own(tmp_path: Path) -> None:
    world = build(tmp_path, plan={}, sandbox="auto")
    status, result, out = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 0, (result, out)
    seen = world.seen(1)
    assert result["sandbox"] == "bubblewrap" and seen["cwd"] == "/home/ben/task" and seen["argv"][2] == "final_model"
    assert seen["env"]["PTB_BASE_MODEL_PATH"].startswith("/") and str(tmp_path) not in json.dumps(seen)


@pytest.mark.demo
def test_the_demo_base_model(tmp_path: Path) -> None:
    """The real pipeline on the untouched base model gives the baseline of the protocol."""
    from ptb_tui.content.lookup import Content
    from ptb_tui.content.protocols import load_protocol

    content = Content.of()
    base = content.shared("containers/models/demo-base")
    if base is None or not (base / "model.safetensors").is_file():
        pytest.skip("the demo base model is not in this tree")
    world = build(tmp_path, sandbox="auto" if shutil.which("bwrap") else "process")
    shutil.copytree(base, world.run_dir / "final_model")
    spec = json.loads((world.ptb / "spec.json").read_text())
    spec |= {"benchmark": "demo", "base_model": "local/demo-base", "protocol": {"name": "demo", "fingerprint": "f"}}
    (world.ptb / "spec.json").write_text(json.dumps(spec | {"content": []}))
    status, result, out = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 0, (result, out)
    baseline = load_protocol(content, "demo").baselines["local/demo-base"]["demo"]
    assert world.metrics()["accuracy"] == pytest.approx(baseline, abs=1e-9)
