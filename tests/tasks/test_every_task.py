"""Every task's two scripts as processes of their own, with a model that really answers, down to the metrics.

What agents run is called as they call it, the final evaluation by its driver. The model in `model/` says the same to
every question of a task, so what must be counted as right is known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import load_task
from ptb_tui.evaluation.final import run_final
from ptb_tui.evaluation.seeds import ALL, aggregate
from ptb_tui.run.graders import VARIABLE
from ptb_tui.run.steps.attempt import Attempts
from ptb_tui.run.steps.phases import phases_of
from ptb_tui.sandbox.base import SYSTEM_PATH
from ptb_tui.sandbox.process import Process
from tests.tasks.conftest import MODEL
from tests.tasks.forked import Scripts
from tests.tasks.grader import Reply, scripted_grader
from tests.tasks.items import GRADED, INSPECT, lay_out, write_lines
from tests.tasks.loading import TASKS
from tests.tasks.standin import program

pytestmark = pytest.mark.demo

ADD = {
    "name": "math.add",
    "description": "Adds.",
    "parameters": {"type": "dict", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}
RUBRICS = [
    {"criterion": "Says seven.", "points": 4, "tags": ["axis:accuracy"]},
    {"criterion": "Says eight.", "points": 6, "tags": ["axis:completeness"]},
]
ITEMS: dict[str, list[dict[str, Any]]] = {
    "aime2025": [{"id": number, "question": f"How much is {number}?", "target": str(number)} for number in (7, 77)],
    "gsm8k": [
        {"id": "w", "question": "One and one?", "reasoning": "1+1=2", "target": "2", "use": "fewshot"},
        *({"id": n, "question": f"{n} cups?", "reasoning": "Count.", "target": str(n)} for n in (7, 17)),
    ],
    "gpqamain": [
        {"id": f"q{n}", "question": f"Which is right, {n}?", "choices": ["right", "wrong", "bad", "false"]}
        for n in range(4)
    ],
    "humaneval": [
        {
            "id": f"h/{n}",
            "prompt": f'def f{n}(x):\n    """Return {n}."""\n',
            "test": f"def check(f):\n    assert f(1) == {n}\n",
            "entry_point": f"f{n}",
        }
        for n in (7, 8)
    ],
    "bfcl": [
        {"id": f"b{n}", "question": [[{"role": "user", "content": f"Add {n}."}]], "tools": [ADD],
         "target": f"math.add(a={n})"}
        for n in (7, 8)
    ],
    "arenahardwriting": [
        {"id": f"a{n}", "question": f"Write about {n}.", "category": "creative_writing"} for n in range(4)
    ],
    "healthbench": [
        {"id": f"p{n}", "messages": [{"role": "user", "content": f"My toe {n} hurts."}], "rubrics": RUBRICS,
         "tags": ["theme:toes"]}
        for n in range(2)
    ],
}  # fmt: skip
ITEMS["aime2026"] = ITEMS["aime2025"]
# bfcl: inspect's provider for transformers does not read calls; with vLLM its parser of calls does
SAYS = {
    **dict.fromkeys(("aime2025", "aime2026", "gsm8k"), "ANSWER: 7"),
    "gpqamain": "ANSWER: B",
    "humaneval": "    return 7",
}
NAMES: dict[str, set[str]] = {
    **{task: {"accuracy", "stderr"} for task in ITEMS},
    "bfcl": {"accuracy"},
    "healthbench": {"accuracy", "stderr", "n_examples", "total_grader_calls", "by_theme", "by_axis"},
}


class Forking(Process):
    """No sandbox either, but with an interpreter that has imported everything, and a `vllm` that is none."""

    def __init__(self, python: Path, tools: Path) -> None:
        self._python, self._tools = python, tools

    def python(self) -> str:
        return str(self._python)

    def path(self) -> tuple[str, ...]:
        return (str(self._tools), *SYSTEM_PATH)


def driven(home: Path, task: str, sandbox: Process, count: int, **values: str) -> dict[str, Any]:
    """The content of metrics.json as the final driver makes it, with `count` seeds."""
    store, content = home / "store", Content.of([TASKS.parent])
    (store / task).mkdir(parents=True)
    write_lines(store / task / "items.jsonl", ITEMS[task])
    if task == "arenahardwriting":
        rows = [{"id": item["id"], "answer": "Baseline poem."} for item in ITEMS[task]]
        write_lines(store / task / "baseline_answers.jsonl", rows)
    found = load_task(content, task, store)
    for name in ("scratch", "out"):
        (home / name).mkdir()
    attempts = Attempts(
        task=found,
        content=content,
        sandbox=sandbox,
        model_dir=MODEL,
        base_model="local/demo-base",
        base_dir=None,
        scratch=home / "scratch",
        out_dir=home / "out",
        timeout_s=300,
        phases=phases_of(found, values),
        values=values,
    )
    outcome = run_final(ALL[:count], found.file.final.ladder, attempts, identical_failures=1)
    assert not outcome.cause, (outcome.why, *(log.read_text()[-3000:] for log in (home / "out").glob("*.txt")))
    return aggregate(outcome.measured, count)


def in_documented_shape(metrics: dict[str, Any], names: set[str], count: int) -> dict[str, Any]:
    """The metrics of the first seed, once the whole has the shape of E §1.7.5."""
    numbers = {name for name in names if not name.startswith("by_")}
    assert set(metrics) == numbers | {"num_seeds", "num_seeds_succeeded", "per_seed"}
    assert metrics["num_seeds"] == metrics["num_seeds_succeeded"] == count
    assert list(metrics["per_seed"]) == [str(seed) for seed in ALL[:count]]
    first: dict[str, Any] = metrics["per_seed"]["72332"]
    assert set(first) == {"max_tokens_stage", "metrics"} and first["max_tokens_stage"] == 0
    assert set(first["metrics"]) == names
    return dict(first["metrics"])


def environment(script: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(script.parents[1]),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PTB_BASE_MODEL": "local/demo-base",
        **more,
    }


def metrics_at(script: Path) -> dict[str, Any]:
    found = json.loads((script.parent / "metrics.json").read_text())
    assert isinstance(found, dict)
    return found


def as_known(task: str, metrics: dict[str, Any], log: Path) -> None:
    """The metrics of an inspect task, and that every answer ended by itself."""
    assert set(metrics) == NAMES[task]
    if task == "gpqamain":  # the model always says B, and the choices are shuffled
        assert metrics["accuracy"] in [right / 4 for right in range(5)]
    else:
        assert metrics["accuracy"] == 0.5
    samples = json.loads(log.read_text())["samples"]
    if task == "bfcl":
        calls = [call for sample in samples for call in sample["output"]["choices"][0]["message"]["tool_calls"]]
        assert [(call["function"], call["arguments"]) for call in calls] == [("math_add", {"a": 7})] * 2
    else:
        assert {sample["output"]["completion"] for sample in samples} == {SAYS[task]}


@pytest.mark.parametrize("task", INSPECT)
def test_an_inspect_task(tmp_path: Path, scripts: Scripts, task: str) -> None:
    script = lay_out(tmp_path, task, False, ITEMS[task])
    arguments = ["--model-path", str(MODEL), "--max-tokens", "80", "--json-output-file", "metrics.json"]
    done = scripts.run(script, *arguments, env=environment(script))
    assert done.returncode == 0, done.stderr[-3000:]
    (log,) = (script.parent / "logs").glob("*.json")
    as_known(task, metrics_at(script), log)


@pytest.mark.parametrize("task", INSPECT)
def test_the_final_evaluation_of_an_inspect_task(tmp_path: Path, scripts: Scripts, task: str) -> None:
    count = 2 if task == "gpqamain" else 1
    metrics = driven(tmp_path, task, Forking(scripts.python, tmp_path), count)
    first = in_documented_shape(metrics, NAMES[task], count)
    (log,) = (tmp_path / "out" / "inspect_logs" / "seed72332").glob("*.json")
    as_known(task, first, log)


def judge(body: dict[str, Any]) -> Reply:
    """Rubrics: met when they name what the answer says. Games: what the model wrote is better than the baseline."""
    text = body["messages"][-1]["content"]
    if "=== A ===" in text:
        return "[[A>B]]" if text.index("It is seven.") < text.index("=== B ===") else "[[B>A]]"
    return json.dumps({"explanation": "", "criteria_met": "Says seven." in text and "It is seven." in text})


def as_graded(task: str, metrics: dict[str, Any], asked: int) -> None:
    assert set(metrics) == NAMES[task]
    if task == "arenahardwriting":
        assert metrics == {"accuracy": 1.0, "stderr": 0.0} and asked == 8
    else:
        assert metrics["total_grader_calls"] == 4 <= asked and metrics["n_examples"] == 2
        assert metrics["accuracy"] == pytest.approx(0.4) and metrics["by_theme"] == {"toes": pytest.approx(0.4)}
        assert metrics["by_axis"] == {"accuracy": pytest.approx(1.0), "completeness": pytest.approx(0.0)}


@pytest.mark.parametrize("task", GRADED)
def test_a_graded_task(tmp_path: Path, scripts: Scripts, served: str, task: str) -> None:
    script = lay_out(tmp_path, task, False, ITEMS[task])
    path = f"{program(tmp_path / 'bin', served)}:/usr/bin:/bin"
    with scripted_grader(judge) as (url, requests):
        env = environment(script, PATH=path, OPENAI_API_KEY="word", OPENAI_BASE_URL=url)
        arguments = ["--model-path", str(MODEL), "--max-new-tokens", "20", "--json-output-file", "metrics.json"]
        done = scripts.run(script, *arguments, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    as_graded(task, metrics_at(script), len(requests))


@pytest.mark.parametrize("task", GRADED)
def test_the_final_evaluation_of_a_graded_task(tmp_path: Path, scripts: Scripts, served: str, task: str) -> None:
    sandbox = Forking(scripts.python, program(tmp_path / "bin", served))
    with scripted_grader(judge) as (url, requests):
        metrics = driven(tmp_path, task, sandbox, 1, OPENAI_API_KEY="word", **{VARIABLE: url})
    as_graded(task, in_documented_shape(metrics, NAMES[task], 1), len(requests))
    assert "word" not in "".join(log.read_text() for log in (tmp_path / "out").glob("*.txt"))


def test_nothing_but_a_script_and_its_folder_is_needed(tmp_path: Path) -> None:
    """One of them not forked from anything."""
    script = lay_out(tmp_path, "gsm8k", False, ITEMS["gsm8k"])
    command = [sys.executable, script.name, "--model-path", str(MODEL), "--json-output-file", "out/metrics.json"]
    env = environment(script, PATH=os.environ["PATH"])
    done = subprocess.run(command, cwd=script.parent, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads((script.parent / "out" / "metrics.json").read_text())["accuracy"] == 0.5


def test_every_task_is_here() -> None:
    """The demo has its own test, through the whole harness."""
    assert {path.parent.name for path in TASKS.glob("*/task.toml")} == {*ITEMS, "demo"}
