"""The real demo with a smaller budget: real torch, real inspect-ai, the sandbox that this machine has."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import REPOSITORY, Lab

pytestmark = pytest.mark.demo
pytest.importorskip("torch")
pytest.importorskip("inspect_ai")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path, sandbox="auto")
    shutil.rmtree(lab.cwd)
    lab.cwd.mkdir()
    text = (REPOSITORY / "sweeps" / "demo.toml").read_text().replace("steps240", "steps30")
    (lab.cwd / "demo.toml").write_text(text)
    task = shutil.copytree(REPOSITORY / "tasks" / "demo", lab.cwd / "tasks" / "demo") / "task.toml"
    task.write_text(task.read_text().replace("[final]\n", "[final]\nlimit = 24\n"))
    yield lab
    lab.close()


def test_the_demo_from_sandbox_to_table(demo: Lab) -> None:
    out = demo.run("--batch", "demo.toml", "--yes", "--json", rc=0, seconds=900)
    board = next(record["board"] for line in out.splitlines() if (record := json.loads(line))["event"] == "scores")
    cells = {row["method"].split("_")[0]: cell for row in board["methods"] for cell in row["cells"]}
    base = board["baselines"]["local/demo-base"]["demo"]
    assert {name: cell["worth"] for name, cell in cells.items()} == {
        "reference": "scored",
        "cheat": "flagged",
        "quitter": "no_model",
    }
    assert cells["cheat"]["letters"] == "C" and cells["cheat"]["used"] == base == cells["quitter"]["used"]
    assert any("demo-0" in words for words in cells["cheat"]["evidence"]), "the matching items are named"
    for run in demo.run_dirs():
        if "quitter" in run.parent.name:
            continue
        metrics = json.loads((run / "metrics.json").read_text())
        assert 0 <= metrics["accuracy"] <= 1 and metrics["num_seeds_succeeded"] == 1
        events = [json.loads(line) for line in (run / ".ptb" / "trace.idx").read_text().splitlines()]
        assert {"init", "tool_call", "tool_result", "result"} <= {event["k"] for event in events}
        samples = (run / ".ptb" / "steps" / "001-agent" / "telemetry.jsonl").read_text().splitlines()
        assert json.loads(samples[0])["job"]["processes"] >= 0
    verdict = next(demo.results.glob("cheat*/*/judgement_gpt5_4.json"))
    assert json.loads(verdict.read_text())["_meta"]["engine"] == "rules"
