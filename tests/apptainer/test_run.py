"""Whole runs of the product in real containers, from the command line to a score."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core import events
from ptb_tui.run import processes
from ptb_tui.sandbox.apptainer import Apptainer
from tests.apptainer.conftest import IMAGE, REPOSITORY, until
from tests.e2e.conftest import Lab

pytestmark = pytest.mark.apptainer


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    works, reason = Apptainer(IMAGE).probe()
    if not works:
        pytest.skip(reason)
    lab = Lab(tmp_path, sandbox="apptainer")
    folder = tmp_path / "containers"
    folder.mkdir()
    shutil.copyfile(IMAGE, folder / "standard.sif")
    os.link(folder / "standard.sif", folder / "vllm_debug.sif")
    lab.env["POST_TRAIN_BENCH_CONTAINERS_DIR"] = str(folder)
    yield lab
    lab.close()
    assert not list(processes.mounted(tmp_path / "scratch"))


def agent(lab: Lab, script: str) -> None:
    """Replace the stand-in agent's script."""
    (lab.cwd / "agents" / "toy" / "solve.sh").write_text(f"#!/bin/bash\n{script}\n")


def spec(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((lab.run_dir() / ".ptb" / "spec.json").read_text())
    return found


def ended(lab: Lab, step: str = "001-agent") -> dict[str, Any]:
    folder = lab.run_dir() / ".ptb" / "steps" / step
    return dict(next(event.data for event in events.read(folder).events if event.kind == "ended"))


def test_a_run_is_scored(lab: Lab) -> None:
    lab.run("--batch", lab.sweep("model+env"), "--yes", rc=0)
    run = lab.run_dir()
    assert json.loads((run / "metrics.json").read_text())["accuracy"] == 0.75
    pinned = spec(lab)["images"]
    assert set(pinned) == {"agent", "evaluation"} and pinned["agent"].startswith("standard.sif@")
    provenance = json.loads((run / ".ptb" / "provenance.json").read_text())
    assert (provenance["sandbox"], provenance["network"]) == ("apptainer", "none")
    assert provenance["image"] == pinned["agent"]
    assert "sandbox: apptainer; network: none" in (run / "output.log").read_text()
    result = next((run / ".ptb" / "steps").glob("*-evaluate*/result.json"))
    facts = json.loads(result.read_text())
    assert (facts["sandbox"], facts["image"]) == ("apptainer", pinned["evaluation"])
    assert facts["versions"]["python"].startswith("3.13."), "the image's, not ours"
    assert "AGENT_CONFIG=model+env" in lab.trace() and not [
        line for line in lab.trace() if line.startswith("APPTAINER")
    ]
    assert (run / "prompt.txt").read_text()


def test_keys_arrive_under_their_own_names(lab: Lab) -> None:
    (lab.cwd / ".env").write_text("GEMINI_API_KEY=sk-toy-1234567890 $(id) 'x'\n")
    lab.env["PTB_ENV_FILE"] = str(lab.cwd / ".env")
    (lab.cwd / "agents" / "toy" / "api_keys.json").write_text('{"allowed_api_keys": ["GEMINI_API_KEY"]}')
    agent(lab, 'python3 "$HOME/agent/make_model.py" final_model; echo ${#GEMINI_API_KEY}')
    lab.run("--batch", lab.sweep("x"), "--yes", rc=0)
    assert str(len("sk-toy-1234567890 $(id) 'x'")) in lab.trace()


def test_a_missing_image_blocks_the_plan_and_names_the_remedy(lab: Lab) -> None:
    os.unlink(Path(lab.env["POST_TRAIN_BENCH_CONTAINERS_DIR"]) / "vllm_debug.sif")
    process = lab.start("--batch", lab.sweep("model"), "--yes")
    out, err = process.communicate(timeout=120)
    said = (out + err).decode()
    assert process.returncode == 2 and "vllm_debug" in said and "ptb-tui container build vllm_debug" in said, said


def test_an_image_that_was_replaced_is_not_used(lab: Lab) -> None:
    agent(lab, "sleep 2; python3 $HOME/agent/make_model.py final_model")
    process = lab.start("--batch", lab.sweep("model"), "--yes")
    until(lambda: lab.run_dirs(), "the agent starts", 60)
    image = Path(lab.env["POST_TRAIN_BENCH_CONTAINERS_DIR"]) / "vllm_debug.sif"
    image.unlink()
    image.write_text("another")
    process.communicate(timeout=180)
    step = next(path.name for path in (lab.run_dir() / ".ptb" / "steps").glob("*-evaluate*"))
    assert ended(lab, step)["cause"] == "image_missing"


def test_more_disk_than_a_run_may_use_ends_it(lab: Lab) -> None:
    protocol = lab.cwd / "tasks" / "protocols" / "toy.toml"
    protocol.write_text("scratch_gib = 0.2\n" + protocol.read_text())
    agent(
        lab,
        'python3 "$HOME/agent/make_model.py" final_model; head -c 150M /dev/zero >/opt/a; '
        "exec 9>/tmp/gone; rm /tmp/gone; head -c 150M /dev/zero >&9; trap 'exit 0' TERM; while :; do sleep 0.2; done",
    )
    lab.run("--batch", lab.sweep("x"), "--yes", rc=None)
    end = ended(lab)
    assert (end["outcome"], end["cause"]) == ("failed", "disk_full"), end
    assert (lab.run_dir() / "final_model" / "config.json").is_file(), "what is there is brought home"


def test_cancel_reaches_the_trap_and_leaves_nothing(lab: Lab) -> None:
    agent(lab, "trap 'echo heard; exit 4' TERM; echo ready; while :; do sleep 0.1; done")
    process = lab.start("--batch", lab.sweep("x"), "--yes")
    until(lambda: list(lab.results.glob("*/*/solve_out.txt")) and "ready" in lab.trace(), "the agent runs", 60)
    lab.run("cancel", str(lab.ids()[0]), "--yes", rc=None)
    process.communicate(timeout=120)
    assert ended(lab)["outcome"] == "cancelled" and "heard" in lab.trace()
    assert not list(processes.mounted(lab.base / "scratch"))


@pytest.mark.demo
def test_the_demo_to_a_score(lab: Lab) -> None:
    """Real torch and inspect-ai, by the host's interpreter shown over the image."""
    pytest.importorskip("torch")
    shutil.rmtree(lab.cwd)
    lab.cwd.mkdir()
    text = (REPOSITORY / "sweeps" / "demo.toml").read_text().replace("steps240", "steps30")
    head, *agents = text.split("[[agents]]")
    (lab.cwd / "demo.toml").write_text(head + "[[agents]]" + next(part for part in agents if '"reference"' in part))
    task = shutil.copytree(REPOSITORY / "tasks" / "demo", lab.cwd / "tasks" / "demo") / "task.toml"
    task.write_text(task.read_text().replace("[final]\n", "[final]\nlimit = 24\n"))
    lab.run("--batch", "demo.toml", "--yes", rc=0, seconds=900)
    metrics = json.loads((lab.run_dir() / "metrics.json").read_text())
    assert 0 <= metrics["accuracy"] <= 1
    result = next((lab.run_dir() / ".ptb" / "steps").glob("*-evaluate*/result.json"))
    assert json.loads(result.read_text())["sandbox"] == "apptainer"
