"""The demo's scripted agents: what they print is Claude Code's stream-json, and it says what they did."""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

AGENTS = Path(__file__).resolve().parents[2] / "agents"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


stream = load(AGENTS / "reference" / "stream.py")


def play(agent: str, config: str, home: Path) -> tuple[int, list[dict[str, Any]]]:
    """Run an agent as the harness does, without a base model; returns its exit code and events."""
    (home / "agent").mkdir()
    (home / "task").mkdir()
    for source in (AGENTS / "reference", AGENTS / agent):
        for file in source.glob("*.py"):
            shutil.copy(file, home / "agent")
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "AGENT_CONFIG": config, "PROMPT": "", "NUM_GPUS": "0"}
    command = ["bash", str(AGENTS / agent / "solve.sh")]
    done = subprocess.run(command, cwd=home / "task", env=environ, capture_output=True, text=True, timeout=120)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_the_quitter_ends_normally_without_a_model(tmp_path: Path) -> None:
    code, events = play("quitter", "none", tmp_path)
    assert code == 0 and not (tmp_path / "task" / "final_model").exists()
    assert [events[0]["type"], events[-1]["type"]] == ["system", "result"]
    assert events[-1]["total_cost_usd"] == 0 and events[-1]["is_error"] is False


def test_every_call_has_its_result_and_a_failed_command_says_so(tmp_path: Path) -> None:
    _, events = play("quitter", "none", tmp_path)
    blocks = [block for event in events if "message" in event for block in event["message"]["content"]]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = {block["tool_use_id"]: block for block in blocks if block["type"] == "tool_result"}
    assert calls == list(results)
    # There is no timer.sh here, so the command really fails.
    timer = results[calls[1]]
    assert timer["is_error"] is True and timer["content"].startswith("Exit code 127")


@pytest.mark.parametrize("agent", ["reference", "cheat"])
@pytest.mark.parametrize("config", ["none", "steps", "steps0", "steps-1", "steps1x"])
def test_a_wrong_config_is_refused_before_anything_is_done(agent: str, config: str, tmp_path: Path) -> None:
    assert play(agent, config, tmp_path) == (2, [])
    assert not any((tmp_path / "task").iterdir())


def test_config_grammar() -> None:
    assert stream.steps_of("steps240") == 240


def test_what_the_checker_names_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(AGENTS / "reference"))
    agent = load(AGENTS / "reference" / "agent.py")
    data = tmp_path / "data.jsonl"
    data.write_text("one\ntwo\nthree\n")
    report = '{"source": "line:2"}\nnot json\n[]\n{"source": 7}\n'
    assert agent.drop_flagged(report, str(data)) == 1
    assert data.read_text() == "one\nthree\n"
