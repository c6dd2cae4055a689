"""The step `evaluate`, with real evaluators in real processes (E §9 item 14; cases A20, C01, C02)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from ptb_tui.content.lookup import Content
from ptb_tui.core import clock
from ptb_tui.evaluation import fingerprint
from ptb_tui.run.steps.channel import metrics_of
from ptb_tui.run.steps.evaluate import base_folder
from ptb_tui.run.steps.kept import keep_inspect_logs
from tests.run.step_world import build, reference_of

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
    caches = {name: seen["env"][name] for name in ("XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR")}
    assert all(place.startswith(str(world.scratch / "cache")) for place in caches.values())
    assert seen["home"] == ["task", "test_data.json"] and "sk-secret" not in json.dumps(seen)
    assert seen["argv"][1:5] == ["--model-path", str(world.run_dir / "final_model"), "--templates-dir", "templates/"]
    assert world.metrics()["per_seed"]["1"]["metrics"]["limit"] == 5


def test_a_script_that_finds_its_items_itself_sees_the_hubs_cache(tmp_path: Path) -> None:
    world = build(tmp_path, plan={})
    (world.content / "tasks" / "stand" / "task.toml").write_text("v = 1\nneeds = []\n")
    spec = json.loads((world.ptb / "spec.json").read_text())
    spec["protocol"] = reference_of(world.content, "stand", "stand")
    (world.ptb / "spec.json").write_text(json.dumps(spec))
    (tmp_path / "hf" / "datasets").mkdir(parents=True)
    step = world.step("002-evaluate-1", kind="evaluate", seeds=[1])
    status, result, out = world.run("evaluate", step, HF_HOME=str(tmp_path / "hf"))
    assert status == 0, (result, out)
    seen = world.seen(1)
    assert seen["env"]["HF_HOME"].endswith("/home/hf_cache") and "hf_cache" in seen["home"]


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


@pytest.mark.parametrize("said", [b"", b"{", b"[]", b'{"accuracy": NaN}', b'{"accuracy": 7}', b"[" * 100_000])
def test_a_bad_result_has_words(said: bytes) -> None:
    assert metrics_of(said)[1]


def test_bad_metrics_are_no_score(tmp_path: Path) -> None:
    world = build(tmp_path, plan={"*": '{"accuracy": 7}'}, final="ladder = [{tries = 1}]")
    assert world.forked(world.step("002-evaluate-1", kind="evaluate")) == 1
    result = json.loads((world.ptb / "steps" / "002-evaluate-1" / "result.json").read_text())
    assert result["cause"] == "eval_failed" and not (world.run_dir / "metrics.json").exists()


def test_a_hanging_attempt_is_ended(tmp_path: Path) -> None:
    world = build(tmp_path, plan={"*": "hang"}, final="attempt_timeout_s = 1.5\nladder = [{tries = 1}]")
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 1 and result["attempts"][0]["timed_out"] and "1.5 s" in result["why"]
    assert result["attempts"][0]["kind"] == "timeout"


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


def test_another_evaluation_leaves_the_score_in_place(tmp_path: Path) -> None:
    world = build(tmp_path, plan={}, final="ladder = [{tries = 1}]")
    world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    public = world.run_dir / "metrics.json"
    before = world.metrics()
    public.write_text(json.dumps(before | {"accuracy": 0.25}))  # as if it had been measured otherwise
    status, result, _ = world.run("evaluate", world.step("003-evaluate-2", kind="evaluate", n=2))
    assert status == 0 and result["output"] == "evaluation_2" and result["score"] is False and "stays" in result["why"]
    assert world.metrics()["accuracy"] == 0.25
    assert json.loads((world.run_dir / "evaluation_2" / "metrics.json").read_text()) == before
    status, result, _ = world.run("evaluate", world.step("004-evaluate-3", kind="evaluate", n=3, replace=True))
    assert status == 0 and result["score"] is True and world.metrics() == before


def test_a_part_is_never_the_score(tmp_path: Path) -> None:
    world = build(tmp_path, plan={})
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate", seeds=[7, 8]))
    assert (
        status == 0 and result["seeds_measured"] == [7, 8] and result["score"] is False and "in part" in result["why"]
    )
    status, result, _ = world.run("evaluate", world.step("003-evaluate-2", kind="evaluate", limit=3, replace=True))
    assert status == 0 and result["limit"] == 3 and result["score"] is False
    assert not (world.run_dir / "metrics.json").exists()
    part = json.loads((world.run_dir / "evaluation_2" / "metrics.json").read_text())
    assert part["per_seed"]["1"]["metrics"]["limit"] == 3
    status, result, _ = world.run("evaluate", world.step("004-evaluate-3", kind="evaluate", limit=0))
    assert status == 1 and result["why"] == "a limit of 0 leaves nothing to evaluate; -1 is all items"


def test_files_in_the_model_or_task_folder_are_no_result(tmp_path: Path) -> None:
    world = build(tmp_path, plan={"*": "planted"}, final="ladder = [{tries = 1}]")
    (world.run_dir / "final_model" / "metrics.json").write_text('{"accuracy": 1.0}')
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 1 and result["cause"] == "eval_failed" and "through its channel" in result["why"]
    assert "PLANTED" in (world.run_dir / "evaluation" / "final_eval_seed1_1.txt").read_text()
    assert not (world.run_dir / "metrics.json").exists()


def test_the_result_comes_through_our_channel(tmp_path: Path) -> None:
    world = build(tmp_path, plan={"1:0": "channel"}, final="ladder = [{tries = 1}]")
    status, _, out = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 0, out
    log = (world.run_dir / "evaluation" / "final_eval_seed1_1.txt").read_text()
    assert "CHILD has nothing" in log and world.metrics()["per_seed"]["1"]["metrics"]["accuracy"] == 0.25


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


def test_killed_at_any_write_it_goes_on_where_it_was(tmp_path: Path) -> None:
    """The driver dies before its 1st, 2nd, 3rd … write; what follows finishes, and no measured seed is run again."""
    calls = tmp_path / "calls"
    plan = {"calls": str(calls), "1:0": "crash", "*": "good"}
    final = "ladder = [{tries = 1}, {max_tokens = 30, tries = 2}]"
    world = build(tmp_path / "w", plan=plan, final=final)
    folder = world.step("002-evaluate-1", kind="evaluate")
    for number in range(1, 40):
        if (done := world.forked(folder, writes=number)) == 0:
            break
        assert done == -signal.SIGKILL, (tmp_path / "w" / "forked.log").read_text()
    assert json.loads((folder / "result.json").read_text())["resumed"] > 3
    measured = [line.split() for line in calls.read_text().splitlines()]
    undisturbed = build(tmp_path / "u", plan={**plan, "calls": ""}, final=final)
    assert undisturbed.forked(undisturbed.step("002-evaluate-1", kind="evaluate")) == 0
    assert world.metrics() == undisturbed.metrics()
    record = json.loads((world.run_dir / "evaluation" / "record.json").read_text())
    assert [(part["seed"], part["n"]) for part in record["attempts"]] == [(1, 1), (1, 2), (2, 1)]
    assert [name for name in os.listdir(world.run_dir) if name.startswith("evaluation")] == ["evaluation"]
    for seed, tokens in (("1", "0"), ("1", "30"), ("2", "30")):
        assert 1 <= measured.count([seed, tokens]) <= 3  # each write of an attempt ends at most one of its tries
    assert measured == sorted(measured)  # nothing is begun again once the next has been


def test_another_step_goes_on_with_what_a_dead_driver_left(tmp_path: Path) -> None:
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
    first = (world.run_dir / "evaluation" / "final_eval_seed1_1.txt").read_text()
    status, result, out = world.run("evaluate", world.step("003-evaluate-2", kind="evaluate", limit_s=3))
    assert status == 0 and result["output"] == "evaluation" and result["resumed"] == 1, out
    assert result["seeds_measured"] == [1] and "used up" in result["why"] and "kept from before" in out
    assert (world.run_dir / "evaluation" / "final_eval_seed1_1.txt").read_text() == first
    assert (world.run_dir / "evaluation" / "interrupted_1_seed2_1.txt").is_file()


def test_unreadable_spec_and_unknown_task(tmp_path: Path) -> None:
    world = build(tmp_path, plan={})
    (world.content / "tasks" / "shared" / "shared_part.py").write_text("# changed since")
    status, result, _ = world.run("evaluate", world.step("001-evaluate-1", kind="evaluate"))
    assert status == 1 and result["cause"] == "content_changed"
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
    from ptb_tui.content.protocols import load_protocol

    content = Content.of()
    base = content.shared("containers/models/demo-base")
    if base is None or not (base / "model.safetensors").is_file():
        pytest.skip("the demo base model is not in this tree")
    world = build(tmp_path, sandbox="auto" if shutil.which("bwrap") else "process")
    shutil.copytree(base, world.run_dir / "final_model")
    spec = json.loads((world.ptb / "spec.json").read_text())
    protocol = reference_of(world.content, "demo", "demo")
    spec |= {"benchmark": "demo", "base_model": "local/demo-base", "protocol": protocol}
    (world.ptb / "spec.json").write_text(json.dumps(spec | {"content": []}))
    status, result, out = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 0, (result, out)
    baseline = load_protocol(content, "demo").baselines["local/demo-base"]["demo"]
    assert world.metrics()["accuracy"] == pytest.approx(baseline, abs=1e-9)


def test_an_empty_file_of_items_is_said_in_one_sentence(tmp_path: Path) -> None:
    world = build(tmp_path, plan={})
    items = world.content / "tasks" / "stand" / "test_data.json"
    items.write_text("")
    spec = json.loads((world.ptb / "spec.json").read_text())
    (world.ptb / "spec.json").write_text(json.dumps(spec | {"protocol": reference_of(world.content, "stand", "stand")}))
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    assert status == 1 and result["cause"] == "data_missing" and f"{items} is empty" in result["why"]
    assert not (world.run_dir / "evaluation").exists()


def test_what_a_base_model_of_the_hub_is(tmp_path: Path) -> None:
    content, model_id = Content.of(), "Qwen/Qwen3-4B-Base"
    values = {"HF_HOME": str(tmp_path / "hf")}
    assert base_folder(content, model_id, values, tmp_path) is None
    top = tmp_path / "hf" / "hub" / "models--Qwen--Qwen3-4B-Base"
    snapshot = top / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    (top / "refs").mkdir()
    (top / "refs" / "main").write_text("c0ffee")
    (top / "blobs").mkdir()
    (top / "blobs" / "x").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    (snapshot / "config.json").symlink_to("../../blobs/x")
    found = base_folder(content, model_id, values, tmp_path)
    assert found is not None and os.listdir(found) == ["config.json"]
    assert json.loads((found / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]


def test_the_provenance_of_an_evaluation(tmp_path: Path) -> None:
    world = build(tmp_path, plan={}, final="ladder = [{tries = 1}]")
    status, result, _ = world.run("evaluate", world.step("002-evaluate-1", kind="evaluate"))
    record = json.loads((world.run_dir / "evaluation" / "record.json").read_text())
    made_with = record["provenance"]
    assert status == 0 and len(made_with["code"]) == 16 and len(made_with["template"]["sha256"]) == 64
    assert made_with["versions"]["python"] and made_with["sandbox"] == "process" and made_with["graders"] == {}
    assert made_with["data"]["files"]["test_data.json"]["count"] == 1
    assert record["plan"]["model"] == result["model_digest"] and record["ended"]["cause"] == ""
    assert "provenance" not in world.metrics()  # as the original writes it
