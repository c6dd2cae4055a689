"""A run on a real task with a real, small model: agent, judge, three seeds of the final evaluation, the score."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import Lab
from tests.tasks.conftest import MODEL
from tests.tasks.items import write_lines
from tests.tasks.test_every_task import ITEMS

PROTOCOL = """
v = 1
name = "small"
tasks = ["gsm8k"]
models = ["local/short"]
prompt = "toy.md"
agents_network = "none"
allow_no_gpu = true
kit = []
weights = { gsm8k = 1.0 }
baselines = { "local/short" = { gsm8k = 0.25 } }
seeds = { gsm8k = [72332, 87681, 38992] }
templates = { "local/short" = "qwen3.jinja" }
[[judges]]
judge = "general_judge"
engine = "rules"
"""


@pytest.mark.demo
def test_gsm8k_from_the_agent_to_the_score(lab: Lab) -> None:
    shutil.copytree(MODEL, lab.cwd / "containers" / "models" / "short")
    (lab.cwd / "tasks" / "protocols" / "small.toml").write_text(PROTOCOL)
    store = lab.base / "data" / "gsm8k"
    store.mkdir(parents=True)
    write_lines(store / "items.jsonl", ITEMS["gsm8k"])
    (store / "test_data.json").write_text(json.dumps([{"question": "7 cups?", "answer": "7"}]))
    lab.env["PTB_DATA_DIR"] = str(store.parent)
    solve = lab.cwd / "agents" / "toy" / "solve.sh"
    solve.write_text('#!/bin/bash\ncp -r "$PTB_BASE_MODEL_PATH" final_model\n')
    sweep = Path(lab.sweep("copy", protocol="small"))
    sweep.write_text(sweep.read_text().replace('["toy"]', '["gsm8k"]').replace("local/toy-base", "local/short"))
    lab.run("--batch", str(sweep), "--yes", seconds=600)
    run = lab.run_dir()
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["accuracy"] == 0.5 and metrics["num_seeds"] == metrics["num_seeds_succeeded"] == 3
    assert list(metrics["per_seed"]) == ["72332", "87681", "38992"]
    assert "gsm8k" in lab.run("scores") and (run / "judgement_general.json").is_file()
    logs = {seed: len(list((run / "evaluation" / "inspect_logs" / f"seed{seed}").iterdir())) for seed in (72332, 87681)}
    assert set(logs.values()) == {1}
