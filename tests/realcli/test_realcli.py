"""The real CLIs, from a sweep to a scored run and through the failures of their providers (docs/decisions/0009).

Each test has a network namespace of its own with nothing but loopback, and a scripted endpoint on it. `make realcli`
plays everything; without PTB_REALCLI=all what takes minutes is left to the recordings (tests/traces/test_endings.py).
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from ptb_tui.core import clock, files
from ptb_tui.core.trace import TraceKind
from ptb_tui.run import processes
from tests.e2e.conftest import until
from tests.realcli import answers, refusals
from tests.realcli.stage import CLIS, PORT, Cli, Stage, key

pytestmark = pytest.mark.realcli
slow = pytest.mark.skipif(os.environ.get("PTB_REALCLI") != "all", reason="takes minutes; `make realcli` plays it")
every_cli = pytest.mark.parametrize("cli", CLIS.values(), ids=CLIS)
K = TraceKind
CLOSED = 9  # a port of loopback where nobody listens


def scored(stage: Stage, calls: int = 1) -> None:
    """What a run leaves whose agent did its work."""
    run, step = stage.run_dir(), stage.agent_step()
    assert (step.state, step.cause, step.flags) == ("done", "", ())
    assert (files.read_object(run / "metrics.json") or {}).get("accuracy") == 0.75, stage.told()
    assert (run / "final_model" / "model.safetensors").is_file()
    kinds = [event.kind for event in stage.events()]
    assert kinds.count(K.TOOL_CALL) == kinds.count(K.TOOL_RESULT) == calls and kinds.count(K.TEXT) >= 2
    assert answers.AFTER in (run / "solve_parsed.txt").read_text()


@every_cli
def test_a_run_from_sweep_to_score(stage: Stage, cli: Cli) -> None:
    stage.run(*stage.play(cli, "ok"))
    scored(stage)
    usage, (call,) = stage.usage(), [event for event in stage.events() if event.kind is K.TOOL_CALL]
    fresh = answers.INPUT - answers.CACHED
    assert (usage.input, usage.cache_read, usage.output) == (2 * fresh, 2 * answers.CACHED, 2 * answers.OUTPUT)
    assert call.tool == cli.tool
    found = stage.provenance()
    assert found["cli"]["from"] == "store" and found["cli"]["digest"]
    assert found["endpoint"] == {"url": f"http://127.0.0.1:{PORT}/ok{cli.base}", "through": "gateway"}
    version = (stage.run_dir() / "cli_version.txt").read_text()
    assert f"binary: {cli.name}\n" in version and f"store: {found['cli']['digest']}\n" in version
    asked = [str(request["headers"]) for request in stage.requests() if request["method"] == "POST"]
    assert any(key(cli.keys[0]) in headers for headers in asked), "the CLI used the key that the agent may see"
    secrets = [key(name).encode() for name in cli.keys]
    kept = [path for path in stage.results.rglob("*") if path.is_file()]
    assert not [path for path in kept if any(secret in path.read_bytes() for secret in secrets)]


def refused(
    stage: Stage,
    cli: Cli,
    scenario: str,
    *,
    seconds: float = 180.0,
    agent: str = "",
    port: int = PORT,
    hours: float = 0.5,
) -> str:
    """Play a run whose provider says no; the words of its end."""
    out = stage.run(*stage.play(cli, scenario, agent=agent or cli.hasty, port=port, hours=hours), rc=1, seconds=seconds)
    step = stage.agent_step()
    assert step.state == "failed", f"{step}\n{stage.told()}"
    assert f"failed: {step.cause}" in out or step.why in out
    assert {later.state for later in stage.steps()[1:]} == {"cancelled"}, "nobody judges or scores what does not count"
    return step.why


@every_cli
def test_a_key_that_is_refused(stage: Stage, cli: Cli) -> None:
    refused(stage, cli, "e401")
    assert stage.agent_step().cause == "credential"


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_the_limit_of_a_subscription(stage: Stage, name: str) -> None:
    cli, before = CLIS[name], time.time()
    why = refused(stage, cli, "plan", agent=cli.limited)
    step = stage.agent_step()
    assert step.cause == "provider_limit" and why
    end = step.facts.get("resets")
    if name == "claude":  # the only one that says it as a time
        assert isinstance(end, int) and before + refusals.LIMIT_S - 2 <= end <= time.time() + refusals.LIMIT_S + 2
    elif name == "codex":
        assert "resets" in why


@every_cli
def test_a_run_that_is_stopped_in_the_middle_of_a_tool(stage: Stage, cli: Cli) -> None:
    batch = stage.start(*stage.play(cli, "slow"))
    scratch = stage.step_scratch()
    shim = clock.process_from((files.read_object(scratch / "shim.json") or {}).get("shim"))
    assert shim is not None

    def asleep() -> bool:
        lines = [files.read_bytes(Path(f"/proc/{pid}/cmdline")) for pid in processes.descendants(shim.pid)]
        return any(b"sleep\x00600" in (line or b"") for line in lines)

    until(asleep, "the agent's command", 120.0)
    stage.run("cancel", str(stage.ids()[0]), "--yes")
    batch.communicate(timeout=120)
    step = stage.agent_step()
    assert (step.state, step.cause) == ("cancelled", "operator")
    record = files.read_object(next(stage.run_dir().glob(".ptb/steps/001-agent/exit.json"))) or {}
    assert record["stopped"] == "cancel" and not record["left_alive"]
    assert not list(processes.marked(b"PTB_STEP=" + os.fsencode(scratch)))
    assert [event for event in stage.events() if event.kind is K.TEXT]
    assert not [event for event in stage.events() if event.kind in (K.LIMIT, K.ERROR)]


def test_a_key_that_nobody_has_is_said_in_the_plan(stage: Stage) -> None:
    (stage.cwd / ".env").write_text("")
    plain = stage.play(CLIS["codex"], "ok")
    done = subprocess.run(stage.command("runs"), cwd=stage.cwd, env=stage.env, capture_output=True, timeout=60)
    assert done.returncode == 0
    process = stage.start(*plain)
    out, err = process.communicate(timeout=60)
    assert process.returncode not in (0, None) and b"CODEX_API_KEY has no value" in out + err
    assert not stage.requests() and not stage.run_dirs()


@slow
@every_cli
@pytest.mark.parametrize("scenario", ["e429", "quota", "mid_quota"])
def test_limits_of_all_kinds(stage: Stage, cli: Cli, scenario: str) -> None:
    refused(stage, cli, scenario, seconds=580.0)
    assert stage.agent_step().cause == "provider_limit"
    kinds = [event.kind for event in stage.events()]
    assert (K.TOOL_RESULT in kinds) == scenario.startswith("mid_")
    assert (stage.run_dir() / "final_model").is_dir() == scenario.startswith("mid_"), "what there is comes home"


@slow
@every_cli
def test_a_provider_that_fails(stage: Stage, cli: Cli) -> None:
    refused(stage, cli, "e500", seconds=580.0)
    assert stage.agent_step().cause == "provider_error"


@slow
@every_cli
def test_a_provider_that_is_not_there(stage: Stage, cli: Cli) -> None:
    # Codex and Gemini wait for as long as they may: four seconds and the five minutes after them.
    refused(stage, cli, "ok", port=CLOSED, hours=0.001, seconds=580.0)
    assert stage.agent_step().cause == "provider_unreachable"


@slow
@every_cli
def test_a_command_that_fails_is_the_agents_matter(stage: Stage, cli: Cli) -> None:
    stage.run(*stage.play(cli, "toolfail"))
    scored(stage)
    (result,) = [event for event in stage.events() if event.kind is K.TOOL_RESULT]
    assert (result.severity.value == "warning") == (cli.name != "gemini"), "Gemini does not tell the status"
