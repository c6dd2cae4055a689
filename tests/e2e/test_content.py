"""Content of the operator's own, in the original's layout: planned, run, edited meanwhile, compared."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptb_tui.run import place
from tests.content.upstream_lab import laboratory, put
from tests.e2e.conftest import Lab

PROTOCOL = """v = 1
name = "labs"
tasks = ["riddles"]
models = ["local/toy-base"]
agents_network = "none"
allow_no_gpu = true
weights = { riddles = 1.0 }
baselines = { "local/toy-base" = { riddles = 0.1 } }

[[judges]]
judge = "general_judge"
engine = "rules"
"""
SWEEP = """name = "labs"
protocol = "labs"
tasks = ["riddles"]
models = ["local/toy-base"]
hours = 0.05
gpus = 0

[[agents]]
agent = "lab_codex"
config = "own"
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """An operator whose content is a laboratory's folder, with a protocol and a base model beside it."""
    made = Lab(tmp_path)
    theirs = laboratory(tmp_path / "lab")
    config = tmp_path / "config" / "ptb-tui" / "config.toml"
    config.write_text(f'content = [{{ path = "{theirs}", layout = "upstream" }}]\n{config.read_text()}')
    put(made.cwd, {"tasks/protocols/labs.toml": PROTOCOL, "labs.toml": SWEEP})
    yield made
    made.close()


def prints(lab: Lab) -> dict[int, str]:
    return {
        spec["id"]: spec["protocol"]["fingerprint"]
        for path in lab.results.glob("*/*/.ptb/spec.json")
        for spec in [json.loads(path.read_text())]
    }


def test_a_laboratory_runs_its_own_content_and_an_edit_is_another_benchmark(lab: Lab) -> None:
    prompt = lab.base / "lab" / "src" / "eval" / "general" / "prompt.txt"
    (cell,) = lab.json("--batch", "labs.toml", "--dry-run")[0]["cells"]
    assert cell["action"] == "submit" and not cell["problems"]
    planned = lab.run("prompt", "labs.toml")
    assert planned.startswith("You train local/toy-base for `Riddles` in 0.05 hours. This is the prompt of the labo")
    assert "{a_and_b} is no placeholder, nor is \\boxed{x}" in planned and "There is no GPU" in planned

    batch = lab.start("--batch", "labs.toml", "--yes", "--json", stderr=subprocess.DEVNULL)
    assert batch.stdout is not None
    for line in batch.stdout:
        if "runs" in json.loads(line):
            break
    first = prompt.read_text()
    prompt.write_text(first.replace("of the laboratory", "that was edited while a run was under way"))
    (prompt.parents[1] / "tasks" / "riddles" / "evaluate_final_eval.py").write_text("raise SystemExit('edited')\n")
    batch.communicate(timeout=180)
    assert batch.returncode == 0
    run_dir = lab.run_dir()
    trace = lab.trace()
    assert (run_dir / "prompt.txt").read_text() == planned, "the frozen copy, whatever was edited meanwhile"
    assert trace[:2] == ["echo the laboratory updates nothing", 'lab = "config of the laboratory"']
    assert json.loads((run_dir / "metrics.json").read_text())["accuracy"] == 0.5

    (cell,) = lab.json("--batch", "labs.toml", "--dry-run")[0]["cells"]
    (remark,) = cell["problems"]
    assert cell["action"] == "exists" and "rerun" in remark["remedy"]
    assert "tasks/prompts/prompt.md, tasks/riddles/evaluate_final_eval.py changed" in remark["words"]
    (prompt.parents[1] / "tasks" / "riddles" / "evaluate_final_eval.py").write_text(
        (prompt.parents[1] / "tasks" / "riddles" / "evaluate.py").read_text()
    )
    (lab.cwd / "again.toml").write_text(f'rerun = "changed"\n{SWEEP}')
    lab.run("--batch", "again.toml", "--yes")
    old, new = sorted(prints(lab))
    assert prints(lab)[old] != prints(lab)[new]

    rows = lab.json("scores")[0]["board"]["methods"]
    name = "lab_codex_own_0.05h"
    assert sorted(row["method"] for row in rows) == [name, f"{name}@{prints(lab)[old][:8]}"]
    assert [cell["run_id"] for row in rows for cell in row["cells"]] in ([old, new], [new, old])
    assert any("tasks/prompts/prompt.md changed" in mark for row in rows for mark in row["marks"])
    (compared,) = lab.json("protocol", "diff", str(old), prints(lab)[new], "--text", rc=1)
    (file,) = compared["files"]
    assert file["file"] == "tasks/prompts/prompt.md" and "+You train" in file["text"] and "edited while" in file["text"]
    (cell,) = lab.json("--batch", "again.toml", "--dry-run")[0]["cells"]
    assert cell["action"] == "exists", "only what has changed is run again"

    retried = lab.json("retry", str(old), "--reason", "once more")[0]
    assert "content of then" in retried["words"]
    spec = json.loads(place.find(lab.root, retried["runs"][0]["id"]).spec.read_text())
    assert spec["protocol"]["fingerprint"] == prints(lab)[old]
