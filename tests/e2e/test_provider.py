"""A provider that fails ends a run that does not count; words that only look like it change nothing (decision 0009)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ptb_tui.core.layout import RunFiles
from ptb_tui.results.records import StepRecord
from ptb_tui.results.steps import read_steps
from tests.e2e.conftest import Lab
from tests.e2e.conftest import lab as lab

pytestmark = pytest.mark.chaos

TRACES = Path(__file__).parents[1] / "data" / "traces"
WORDS = "You've hit your usage limit. Try again at 4:50 PM."


def item(kind: str, text: str) -> str:
    return json.dumps({"type": "item.completed", "item": {"id": "i", "type": kind, "text": text}})


def played(lab: Lab, lines: str, status: int, *, model: bool = True, rc: int = 0) -> StepRecord:
    """Run an agent whose CLI prints these lines and ends with this status."""
    folder = lab.cwd / "agents" / "replay"
    folder.mkdir()
    (folder / "api_keys.json").write_text('{"allowed_api_keys": []}')
    (folder / "agent.toml").write_text('extends = "toy"\ntrace = "codex"\nfiles = ["said"]\n')
    (folder / "said").write_text(lines)
    make = 'python3 "$HOME/agent/make_model.py" final_model\n' if model else ""
    (folder / "solve.sh").write_text(f'{make}cat "$HOME/agent/said"\nexit {status}\n')
    sweep = Path(lab.sweep("x"))
    sweep.write_text(sweep.read_text().replace('agent = "toy"', 'agent = "replay"'))
    lab.run("--batch", str(sweep), "--yes", rc=rc)
    return read_steps(RunFiles(lab.run_dir() / ".ptb"), {}).steps[0]


@pytest.mark.parametrize(
    ("trace", "cause", "why"),
    [
        ("codex.usage_plan.jsonl", "provider_limit", "resets 4:50 PM"),
        ("codex.e401.jsonl", "credential", "HTTP 401"),
        ("codex.e500.jsonl", "provider_error", ""),
        ("codex.mid_usage.jsonl", "provider_limit", ""),
    ],
)
def test_a_session_that_the_provider_ended_does_not_count(lab: Lab, trace: str, cause: str, why: str) -> None:
    step = played(lab, (TRACES / trace).read_text(), 1, rc=1)
    assert (step.state, step.cause) == ("failed", cause) and why in step.why
    assert (lab.run_dir() / "final_model").is_dir(), "what there is comes home all the same"
    assert not (lab.run_dir() / "metrics.json").exists()
    shown = lab.run("scores")
    assert "failed" in shown
    plan = lab.run("--batch", str(lab.cwd / "toy.toml"), "--dry-run")
    assert "1 to submit" in plan and "attempt 2" in plan


def test_a_limit_in_the_middle_is_a_flag(lab: Lab) -> None:
    lines = (TRACES / "codex.mid_usage.jsonl").read_text().splitlines()
    step = played(lab, "\n".join([*lines, item("agent_message", "On I go."), '{"type":"turn.completed"}']), 0)
    assert (step.state, step.cause, step.flags) == ("done", "", ("hit a usage limit",))
    assert json.loads((lab.run_dir() / "metrics.json").read_text())["accuracy"] == 0.75
    assert "hit a usage limit" in lab.run("show", str(lab.ids()[0]))


@pytest.mark.parametrize("status", [0, 1])
def test_words_of_an_agent_decide_nothing(lab: Lab, status: int) -> None:
    lines = [item("agent_message", WORDS), f"error: {WORDS}", item("reasoning", "429 Too Many Requests"), WORDS]
    step = played(lab, "\n".join(lines), status)
    assert (step.state, step.cause, step.flags) == ("done", "agent_exit" if status else "", ())


def test_a_cli_that_is_missing(lab: Lab) -> None:
    step = played(lab, "agent: the command codex is not installed in this image\n", 127, model=False, rc=1)
    assert (step.state, step.cause) == ("failed", "cli_missing")
    shutil.rmtree(lab.cwd / "agents" / "replay")
