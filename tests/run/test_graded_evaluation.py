"""The step `evaluate` on a task with a paid grader: two phases, a grader that gives up, and going on (E §8.3 (23, 27)).

Task and scripts are HealthBench's; only the model's server is a function that says what it sees.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.polling import until
from tests.run.step_world import World, build, reference_of, write
from tests.tasks.grader import Reply, scripted_grader
from tests.tasks.items import ITEMS

KEY = "sk-test-0123456789abcdef"
QUOTA: Reply = (402, {"message": f"no credits for {KEY}"})
MET = '{"explanation": "yes", "criteria_met": true}'
SERVER = """
import contextlib, json, os, socket, sys
from ptb_server_real import read_answers

def _others():
    return sorted(name for name in os.environ if name.endswith("_KEY") and name != "VLLM_API_KEY")

@contextlib.contextmanager
def serving(model, template, start_s=0):
    try:
        socket.create_connection(("127.0.0.1", int(os.environ.get("GRADER_PORT", "PORT"))), 5).close()
        reached = True
    except OSError:
        reached = False
    print("GENERATES " + json.dumps([_others(), reached, os.path.isfile(model + "/config.json")]), flush=True)
    yield None

def generate(client, model, messages, max_tokens, seed):
    return "Rest, with seed {}.".format(seed)
"""
MODEL = "def vllm_works():\n    return True\n\ndef check_model(path):\n    pass\n\nmodel_for = check_model\n"
SCRIPT_TAIL = """
import json, os
print("SEES " + json.dumps([os.path.exists("final_model"), "OPENAI_API_KEY" in os.environ, sys.argv]), flush=True)
"""


@dataclass
class Grader:
    """Replies of a scripted endpoint: after `good` calls it refuses with `then`, or waits for `go`."""

    url: str = ""
    good: int = 1 << 30
    then: Reply | None = QUOTA
    asked: list[dict[str, Any]] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)

    def answer(self, body: dict[str, Any]) -> Reply:
        self.good -= 1
        if self.good >= 0:
            return MET
        if self.then is None:
            self.go.wait(60)
            return MET
        return self.then


@pytest.fixture
def grader() -> Iterator[Grader]:
    found = Grader()
    with scripted_grader(found.answer) as (url, requests):
        found.url, found.asked = url, requests
        yield found
        found.go.set()


def graded(tmp: Path, grader: Grader, sandbox: str) -> World:
    """A world whose task is HealthBench under the name `stand`."""
    world = build(tmp, plan={}, sandbox=sandbox)
    task, shared = world.content / "tasks" / "stand", world.content / "tasks" / "shared"
    shutil.rmtree(task)
    shutil.copytree(world.content / "tasks" / "healthbench", task)
    (task / "data.toml").unlink()
    os.rename(shared / "ptb_server.py", shared / "ptb_server_real.py")
    lines = "".join(json.dumps(item) + "\n" for item in ITEMS["healthbench"])
    port = grader.url.split(":")[2].split("/")[0]
    protocol = world.content / "tasks" / "protocols" / "stand.toml"
    protocol.write_text(protocol.read_text().replace("stand = [1, 2]", "stand = [1]"))
    final = (task / "evaluate_final_eval.py").read_text().replace("if __name__", SCRIPT_TAIL + "\nif __name__")
    write(
        world.content,
        {
            "tasks/shared/ptb_server.py": SERVER.replace("PORT", port),
            "tasks/shared/ptb_model.py": MODEL,
            "tasks/stand/items.jsonl": lines,
            "tasks/stand/test_data.json": '[{"question": "q", "answer": "a"}]',
            "tasks/stand/evaluate_final_eval.py": final,
        },
    )
    spec = json.loads((world.ptb / "spec.json").read_text())
    spec |= {"protocol": reference_of(world.content, "stand", "stand"), "endpoints": {"grader": grader.url}}
    (world.ptb / "spec.json").write_text(json.dumps(spec))
    return world


def evaluate(world: World, name: str) -> tuple[int, dict[str, Any], str]:
    return world.run("evaluate", world.step(name), OPENAI_API_KEY=KEY)


def log_of(world: World, n: int = 1) -> str:
    return (world.run_dir / "evaluation" / f"final_eval_seed1_{n}.txt").read_text()


def said(log: str, word: str) -> list[Any]:
    return [json.loads(line.removeprefix(word)) for line in log.splitlines() if line.startswith(word)]


def holders(folder: Path, key: str = KEY) -> list[Path]:
    """Files with the key in them."""
    return [path for path in folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


def nothing_holds_the_key(world: World) -> None:
    assert not holders(world.root) and not holders(world.scratch)


def test_a_grader_without_credit_is_no_score_and_the_next_step_goes_on(tmp_path: Path, grader: Grader) -> None:
    world = graded(tmp_path, grader, "process")
    grader.good = 4
    status, result, out = evaluate(world, "002-evaluate#1")
    assert status == 1 and result["cause"] == "grading_incomplete", (result, out)
    assert "the grader's account has no credit left, graded 4 of 6; top it up" in result["why"]
    assert not (world.run_dir / "metrics.json").exists() and len(result["attempts"]) == 1
    spent = len(grader.asked)
    assert 5 <= spent <= 6, "of what is refused for good nothing more is asked"
    nothing_holds_the_key(world)
    grader.good = 1 << 30
    status, result, out = evaluate(world, "003-evaluate#2")
    assert status == 0 and result["output"] == "evaluation" and result["resumed"] == 1, (result, out)
    assert len(grader.asked) - spent == 2, "only what is missing"
    assert (
        world.metrics()["accuracy"] == pytest.approx(0.4) and world.metrics()["per_seed"]["1"]["max_tokens_stage"] == 0
    )
    assert {request["key"] for request in grader.asked} == {f"Bearer {KEY}"}
    assert not said(log_of(world, 1), "GENERATES "), "the answers of the first step are graded"
    (told,) = result["graders"].values()
    assert told["calls"] == spent + 2 and told["tokens"] == {"input": 60, "output": 12} and told["cost_usd"] == 1.5
    assert told["models"] == {"gpt-5-mini-2026": 6} and told["failed"]["credit"] >= 1
    nothing_holds_the_key(world)


@pytest.mark.bubblewrap
def test_the_model_never_sees_a_key_nor_the_grader_the_model(tmp_path: Path, grader: Grader) -> None:
    world = graded(tmp_path, grader, "bubblewrap")
    status, result, out = evaluate(world, "002-evaluate#1")
    assert status == 0 and len(grader.asked) == 6, (result, out, log_of(world))
    assert said(log_of(world), "GENERATES ") == [[[], False, True]], "no key, no grader, the model"
    (first, second) = said(log_of(world), "SEES ")
    assert first[:2] == [True, False] and second[:2] == [False, True]
    assert "--generate-only" in first[2] and "--json-output-file" not in first[2] and "--skip-generation" in second[2]
    ledger = (world.run_dir / "evaluation" / "egress_seed1_1.jsonl").read_text().splitlines()
    hosts = {(line["host"], str(line["port"])) for line in map(json.loads, ledger)}
    assert hosts == {("127.0.0.1", grader.url.split(":")[2].split("/")[0])}
    nothing_holds_the_key(world)


@pytest.mark.bubblewrap
def test_what_was_graded_before_a_kill_is_not_asked_for_again(tmp_path: Path, grader: Grader) -> None:
    world = graded(tmp_path, grader, "bubblewrap")
    grader.good, grader.then = 4, None
    step = world.step("002-evaluate#1")
    child = world.start("evaluate", step, OPENAI_API_KEY=KEY)
    kept = world.run_dir / "evaluation" / "kept"
    until(lambda: len(list(kept.rglob("*/??/*.json"))) == 4 or child.poll() is not None, "four replies", 120)
    assert child.poll() is None, child.communicate()
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    grader.go.set()
    grader.good = 1 << 30
    status, result, out = world.run("evaluate", step, OPENAI_API_KEY=KEY)
    assert status == 0 and world.metrics()["accuracy"] == pytest.approx(0.4), (result, out)
    times = Counter(json.dumps(request["messages"]) for request in grader.asked)
    assert len(times) == 6 and sorted(times.values())[:4] == [1] * 4, "at most the two under way are asked again"
    logs = [path.read_text() for path in (world.run_dir / "evaluation").glob("*.txt")]
    assert sum(len(said(log, "GENERATES ")) for log in logs) == 1


def test_without_a_key_the_step_says_what_it_needs(tmp_path: Path, grader: Grader) -> None:
    world = graded(tmp_path, grader, "process")
    status, result, _ = world.run("evaluate", world.step("002-evaluate#1"))
    assert status == 1 and result["cause"] == "credential"
    assert "the grader needs OPENAI_API_KEY or OPENROUTER_API_KEY" in result["why"]
