"""`baseline`: a model measured as it is, and answers to compare with, through the real command."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Lab

WRITER = """
import argparse, json, os, sys
parser = argparse.ArgumentParser()
for name in ("--model-path", "--templates-dir", "--limit", "--seed", "--max-tokens", "--json-output-file"):
    parser.add_argument(name)
parser.add_argument("--generate-only", action="store_true")
args = parser.parse_args()
compared = [json.loads(line) for line in open("../baseline_answers.jsonl")]
if not args.generate_only or any(row["answer"] for row in compared):
    sys.exit("RuntimeError: answers were to be made, and compared with nothing")
os.mkdir("outputs")
with open("outputs/answers.jsonl", "w") as file:
    for row in compared:
        file.write(json.dumps({"id": row["id"], "answer": "seed " + args.seed}) + "\\n")
"""
DATA = """
v = 1
[[sources]]
kind = "hub"
repo = "org/questions"
[[sources]]
kind = "generated"
file = "baseline_answers.jsonl"
made_by = "ptb-tui baseline writing org/writer --answers"
[items]
id = "id"
question = "question"
"""


def measured(lab: Lab, *arguments: str) -> dict[str, Any]:
    return lab.json("baseline", *arguments)[-1]


def cached(lab: Lab, name: str) -> None:
    """A model in the cache of the hub, as it lies there: links to blobs."""
    lab.env["HF_HOME"] = str(lab.base / "hf")
    top = lab.base / "hf" / "hub" / ("models--" + name.replace("/", "--"))
    for folder in ("refs", "blobs", "snapshots/c0ffee"):
        (top / folder).mkdir(parents=True)
    (top / "refs" / "main").write_text("c0ffee")
    for number, file in enumerate((lab.cwd / "containers" / "models" / "toy-base").iterdir()):
        shutil.copy(file, top / "blobs" / str(number))
        (top / "snapshots" / "c0ffee" / file.name).symlink_to(f"../../blobs/{number}")


def test_a_model_of_the_content_and_one_of_the_hub(lab: Lab) -> None:
    assert "local/toy-base on toy" in lab.run("baseline", "toy", "local/toy-base", "--dry-run")
    assert not lab.results.exists(), "nothing was done"
    out = lab.run("baseline", "toy", "local/toy-base")
    assert out.endswith('[baselines."local/toy-base"]\ntoy = 0.75\n'), out
    cached(lab, "org/toy")
    row = measured(lab, "toy", "org/toy")["rows"][0]
    assert (row["model"], row["accuracy"], row["stderr"], row["whole"]) == ("org/toy", 0.75, 0.01, True)
    assert row["protocol"] == "toy" and row["seeds"] == [1] and row["fingerprint"]
    folder = Path(row["folder"])
    assert folder == lab.root.own("baselines") / "toy_org_toy" / "evaluation"
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["num_seeds_succeeded"] == 1 and metrics["per_seed"]["1"]["metrics"]["accuracy"] == 0.75
    made = json.loads((folder / "record.json").read_text())["provenance"]
    assert made["model_digest"] and made["code"] and made["versions"]["python"] and made["operator"] == "tester"
    part = measured(lab, "toy", "org/toy", "--seeds", "2", "--limit", "3")["rows"][0]
    assert not part["whole"] and len(part["seeds"]) == 2 and part["limit"] == 3 and part["spread"] == 0
    listed = lab.run("baseline")
    assert listed.count("toy = 0.75") == 2 and "org/toy" in listed
    assert os.listdir(lab.base / "scratch") == []


def test_what_cannot_be_measured_says_why(lab: Lab) -> None:
    assert lab.json("baseline", "toy", "org/none", rc=2)[-1]["error"]["hint"] == "ptb-tui data cache --only org/none"
    broken = lab.base / "broken"
    shutil.copytree(lab.cwd / "containers" / "models" / "toy-base", broken)
    (broken / "model.safetensors").unlink()
    assert f"{broken} holds no *.safetensors" in lab.json("baseline", "toy", str(broken), rc=2)[-1]["error"]["message"]
    assert lab.json("baseline", "toy", "--seeds", "9", rc=2)
    assert lab.json("baseline", "toy", "local/toy-base", "--limit", "0", rc=2)
    (lab.cwd / "containers" / "models" / "toy-base" / "switch").write_text("fail")
    error = lab.json("baseline", "toy", "local/toy-base", rc=1)[-1]["error"]
    assert "told to fail" in error["message"] and "the logs are in" in error["hint"]
    assert lab.json("baseline")[-1]["rows"] == []


def test_answers_to_compare_with(lab: Lab) -> None:
    cached(lab, "org/writer")
    task, store = lab.cwd / "tasks" / "writing", lab.base / "data"
    shutil.copytree(lab.cwd / "tasks" / "toy", task)
    (task / "test_data.json").unlink()
    (task / "data.toml").write_text(DATA)
    (task / "evaluate_final_eval.py").write_text(WRITER)
    lab.env["PTB_DATA_DIR"] = str(store)
    command = ("writing", "org/writer", "--answers")
    refused = lab.json("baseline", *command, rc=2)[-1]["error"]
    assert "items.jsonl is missing" in refused["message"] and refused["hint"] == "ptb-tui data fetch writing"
    (store / "writing").mkdir(parents=True)
    (store / "writing" / "items.jsonl").write_text("".join(f'{{"id": {n}, "question": "?"}}\n' for n in range(3)))
    assert "baseline_answers.jsonl" in lab.run("baseline", *command, "--dry-run")
    assert "3 answers of org/writer" in lab.run("baseline", *command)
    made = (store / "writing" / "baseline_answers.jsonl").read_text()
    assert [json.loads(line) for line in made.splitlines()] == [{"id": n, "answer": "seed 1"} for n in range(3)]
    lab.run("baseline", *command)
    assert len(list((store / "writing").glob("baseline_answers*.jsonl"))) == 2, "those before are kept"
