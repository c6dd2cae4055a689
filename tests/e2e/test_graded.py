"""A whole run on a task with a paid grader: the agent's own evaluation and the final one reach it, and nothing else."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import REPOSITORY, Lab, until
from tests.run.test_graded_evaluation import KEY, MET, MODEL, SERVER, holders
from tests.tasks.grader import Reply, scripted_grader
from tests.tasks.items import ITEMS

pytestmark = pytest.mark.bubblewrap
SOLVE = """#!/bin/bash
python3 "$HOME/agent/make_model.py" final_model
python3 evaluate.py --model-path final_model --templates-dir templates/ --limit 2 --json-output-file mine.json
echo "MINE $(tr -d '\\n' < mine.json)"
echo "KEYS $(env | grep '_KEY=.' | cut -d= -f1 | sort | tr '\\n' ' ')"
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    found = Lab(tmp_path, sandbox="bubblewrap")
    yield found
    found.close()


def graded(lab: Lab, url: str) -> Path:
    """HealthBench's scripts as task `graded`, its model's server a function; returns a sweep."""
    task = lab.cwd / "tasks" / "graded"
    shutil.copytree(REPOSITORY / "tasks" / "healthbench", task)
    (task / "data.toml").unlink()
    (task / "task_context").mkdir()
    real = (REPOSITORY / "tasks" / "shared" / "ptb_server.py").read_text()
    (task / "task_context" / "ptb_server_real.py").write_text(real)
    (task / "task_context" / "ptb_server.py").write_text(SERVER.replace("PORT", "1"))
    (task / "task_context" / "ptb_model.py").write_text(MODEL)
    (task / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in ITEMS["healthbench"]))
    (task / "test_data.json").write_text('[{"question": "q", "answer": "a"}]')
    protocols = lab.cwd / "tasks" / "protocols"
    text = (protocols / "toynet.toml").read_text().replace('"toynet"', '"graded"').replace('["toy"]', '["graded"]')
    text = text.replace("{ toy = 1.0 }", "{ graded = 1.0 }").replace("{ toy = 0.1 }", "{ graded = 0.1 }")
    text += '\n[templates]\n"local/toy-base" = "qwen3.jinja"\n'
    (protocols / "graded.toml").write_text(text)
    (lab.cwd / "agents" / "toy" / "solve.sh").write_text(SOLVE)
    sweep = Path(lab.sweep("x", protocol="graded"))
    sweep.write_text(sweep.read_text().replace('["toy"]', '["graded"]') + f"[endpoints]\ngrader = {json.dumps(url)}\n")
    return sweep


def test_a_run_with_a_paid_grader(lab: Lab) -> None:
    credit, calls = threading.Event(), itertools.count(1)

    def answer(body: dict[str, Any]) -> Reply:
        return MET if credit.is_set() or next(calls) <= 2 * 2 + 3 else (402, {"message": "pay first"})

    with scripted_grader(answer) as (url, asked):
        sweep = graded(lab, url)
        plan = lab.run("--batch", str(sweep), "--dry-run", "--json", rc=None)
        assert "OPENAI_API_KEY has no value, and the answers to graded are graded with it" in plan
        assert "(or OPENROUTER_API_KEY=" in plan
        (lab.cwd / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
        lab.env["PTB_ENV_FILE"] = str(lab.cwd / ".env")
        lab.run("--batch", str(sweep), "--yes", rc=1)
        run, trace = lab.run_dir(), "\n".join(lab.trace())
        assert 'MINE {  "accuracy": 0.4' in trace, trace
        assert "KEYS OPENAI_API_KEY VLLM_API_KEY \n" in trace + "\n"
        spent = len(asked)
        assert not (run / "metrics.json").exists() and 8 <= spent <= 10
        shown = lab.run("show", str(lab.ids()[0]), rc=None)
        assert "the grader's account has no credit left, graded 3 of 6" in shown, shown
        credit.set()
        lab.run("eval", str(lab.ids()[0]), rc=None)
        until((run / "metrics.json").exists, "the score", 120)
        assert json.loads((run / "metrics.json").read_text())["accuracy"] == pytest.approx(0.4)
        assert len(asked) == spent + 3, "only what was missing"
    facts = json.loads((run / ".ptb" / "provenance.json").read_text())
    assert facts["measuring"] == {"url": url, "key": "OPENAI_API_KEY"}
    assert json.loads((run / ".ptb" / "spec.json").read_text())["endpoints"]["grader"] == url
    assert not holders(lab.results)
