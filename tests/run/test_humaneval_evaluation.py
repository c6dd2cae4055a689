"""HumanEval's final evaluation as a step: what the model wrote runs beside the attempt (E §1.7.3).

All canonical solutions and every answer that must be wrong go through the real scripts as completions of a model that
says what an item tells it to.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.run.step_world import World, build, reference_of, write
from tests.tasks.test_answer_sandbox import PROBLEM, RIGHT, WRONG, canonical

MODEL = """
import json
from pathlib import Path

ITEMS = [json.loads(line) for line in Path("../items.jsonl").read_text().splitlines()]


def check_model(path):
    pass


def vllm_works():
    return False


def _answer(input, tools, tool_choice, config):
    from inspect_ai.model import ModelOutput, ModelUsage

    asked = input[-1].text
    item = next(item for item in ITEMS if asked.endswith(item["prompt"]))
    made = ModelOutput.from_content("mockllm/model", item["completion"])
    made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return made


def model_for(args, template, tool_parser=""):
    return {"model": "mockllm/model", "model_args": {"custom_outputs": _answer}}
"""


def items() -> list[dict[str, Any]]:
    """One item an answer; `right` is what must come of it."""
    cases = {**WRONG, "a right answer": RIGHT}
    found = []
    for number, (name, body) in enumerate(cases.items()):
        prompt = PROBLEM["prompt"].replace("Twice x", f"Case {number}: twice x")
        found.append({**PROBLEM, "id": name, "prompt": prompt, "completion": body, "right": name not in WRONG})
    for problem in canonical():
        item = {name: problem[name] for name in ("prompt", "test", "entry_point")}
        item["completion"] = problem["canonical_solution"]
        found.append({**item, "id": problem["task_id"], "right": True})
    return found


def humaneval(tmp: Path, sandbox: str, rows: list[dict[str, Any]]) -> World:
    """A world whose task is HumanEval with these items under the name `stand`."""
    world = build(tmp, plan={}, sandbox=sandbox)
    task = world.content / "tasks" / "stand"
    shutil.rmtree(task)
    shutil.copytree(world.content / "tasks" / "humaneval", task)
    (task / "data.toml").unlink()
    protocol = world.content / "tasks" / "protocols" / "stand.toml"
    write(
        world.content,
        {
            "tasks/shared/ptb_model.py": MODEL,
            "tasks/stand/items.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
            "tasks/stand/test_data.json": '[{"question": "q", "answer": "a"}]',
            "tasks/protocols/stand.toml": protocol.read_text().replace("stand = [1, 2]", "stand = [1]"),
        },
    )
    spec = json.loads((world.ptb / "spec.json").read_text())
    spec["protocol"] = reference_of(world.content, "stand", "stand")
    (world.ptb / "spec.json").write_text(json.dumps(spec))
    return world


def verdicts(world: World) -> dict[str, bool]:
    """What the evaluation said of each answer, from inspect's log."""
    (log,) = (world.run_dir / "evaluation" / "inspect_logs" / "seed1").glob("*.json")
    samples = json.loads(log.read_text())["samples"]
    return {sample["id"]: sample["scores"]["answer_sandbox"]["value"] == "C" for sample in samples}


def log_of(world: World) -> str:
    return (world.run_dir / "evaluation" / "final_eval_seed1_1.txt").read_text()


@pytest.mark.bubblewrap
@pytest.mark.demo
def test_wrong_answers_are_wrong_and_canonical_solutions_right(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    rows = items()
    assert len(rows) == len(WRONG) + 1 + 164
    world = humaneval(tmp_path, "bubblewrap", rows)
    status, result, out = world.run("evaluate", world.step("002-evaluate#1"))
    assert status == 0, (result, out, log_of(world)[-3000:])
    assert verdicts(world) == {row["id"]: row["right"] for row in rows}
    assert world.metrics()["accuracy"] == pytest.approx(165 / len(rows))
    assert os.listdir(world.scratch) == []


@pytest.mark.demo
def test_without_an_answer_server_there_is_no_score(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    world = humaneval(tmp_path, "process", items()[:1])
    box = world.content / "tasks" / "stand" / "evaluation_code" / "answers" / "box.py"
    box.write_text("import sys\nsys.exit('answer sandbox: unshare: not permitted')\n")
    spec = json.loads((world.ptb / "spec.json").read_text())
    spec["protocol"] = reference_of(world.content, "stand", "stand")
    (world.ptb / "spec.json").write_text(json.dumps(spec))
    status, result, _ = world.run("evaluate", world.step("002-evaluate#1"))
    assert status == 1 and result["cause"] == "sandbox" and not (world.run_dir / "metrics.json").exists()
    assert "the sandbox for answers did not start: unshare: not permitted" in result["why"]
