"""What is imported where, where secrets may be, and that a run keeps to what it was submitted with."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ptb_tui.content.lookup import Content
from ptb_tui.core import events
from ptb_tui.run import locks
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.site import bundle
from tests.e2e.conftest import REPOSITORY, Lab, until

STANDARD = (
    "ptb_tui.run.supervisor",
    "ptb_tui.run.shim",
    "ptb_tui.run.companion",
    "ptb_tui.run.dispatch",
    "ptb_tui.run.locks",
    "ptb_tui.run.stepping",
)
HEAVY = {"textual", "asyncssh", "openai", "inspect_ai", "torch", "transformers", "pydantic"}


def imported(code: str, *arguments: str) -> set[str]:
    """Top-level packages beyond the standard library after a piece of code ran in a fresh interpreter."""
    text = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
before = {{name.partition(".")[0] for name in sys.modules}}
sys.argv[1:] = {list(arguments)!r}
try:
    {code}
except SystemExit:
    pass
names = {{name.partition(".")[0] for name in sys.modules}} - before - set(sys.stdlib_module_names)
print("\\n" + " ".join(sorted(names)))
"""
    answer = subprocess.run([sys.executable, "-I", "-c", text], capture_output=True, text=True, timeout=60, cwd="/")
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("module", STANDARD)
def test_what_stands_beside_an_agent_needs_the_standard_library_alone(module: str) -> None:
    assert imported(f"import {module}") == {"ptb_tui"}


def test_help_is_light() -> None:
    assert not imported("from ptb_tui.__main__ import main; main()", "--help") & HEAVY


def test_the_front_end_is_light_until_a_verb_needs_more() -> None:
    assert not imported("import ptb_tui.cli, ptb_tui.batch, ptb_tui.site.local, ptb_tui.site.remote") & (
        HEAVY - {"pydantic"}
    )


CANARY = "canary-6fQ0vXz31LmTq8Rw"
OTHER = "other-9dKe27BnUo5PsYc4"
SHELL = "shell-1gHj48VtAx0ZrMi6"
AGENT_ENV = {
    "AGENT_CONFIG", "CANARY_API_KEY", "HF_HOME", "HF_HUB_OFFLINE", "HOME", "LANG", "NUM_GPUS", "OMP_NUM_THREADS",
    "PATH", "PROMPT", "PTB_BASE_MODEL", "PTB_BASE_MODEL_PATH", "PTB_STEP", "PWD", "PYTHONNOUSERSITE", "SHLVL",
    "VLLM_API_KEY", "_",
}  # fmt: skip
FURTHER_WORDS = """    length) echo length ${#CANARY_API_KEY} ;;
    timer) bash timer.sh ;;
    *)"""


def forms(value: str) -> list[bytes]:
    raw = value.encode()
    cores = [base64.b64encode(bytes(shift) + raw)[4:-4] for shift in range(3)]
    return [raw, *cores]


def holding(folder: Path, value: str) -> list[str]:
    """Files below a folder, names included, that hold a value in any form."""
    wanted, found = forms(value), []
    for base, folders, leaves in os.walk(folder):
        for name in (*folders, *leaves):
            path = Path(base) / name
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            if any(form in data or form in os.fsencode(name) for form in wanted):
                found.append(str(path.relative_to(folder)))
    return found


def command_lines() -> bytes:
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            found.append((folder / "cmdline").read_bytes() if folder.name.isdigit() else b"")
    return b"\n".join(found)


@pytest.mark.parametrize("sandbox", ["process", pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)])
def test_a_key_reaches_the_agent_and_nothing_else(tmp_path: Path, sandbox: str) -> None:
    if sandbox == "bubblewrap" and not Bubblewrap().probe()[0]:
        pytest.skip("bubblewrap does not work here")
    lab = Lab(tmp_path, sandbox=sandbox)
    try:
        agent = lab.cwd / "agents" / "toy"
        (agent / "api_keys.json").write_text('{"allowed_api_keys": ["CANARY_API_KEY"]}')
        script = (agent / "solve.sh").read_text()
        (agent / "solve.sh").write_text(script.replace("    *)", FURTHER_WORDS))
        for name in ("codex_auth.json", "oauth_token", ".env"):
            (agent / name).write_text(f"TOKEN={OTHER}\n")
        (lab.cwd / ".env").write_text(f"CANARY_API_KEY={CANARY}\nOTHER_API_KEY={OTHER}\n")
        (lab.cwd / ".env").chmod(0o600)
        lab.env["SHELL_TOKEN"] = SHELL
        sweep = lab.sweep("length+timer+env+model+sleep2", hours=0.01)
        with lab.start("--batch", sweep, "--yes") as process:
            until(lambda: lab.step_scratch() and lab.run_dirs(), "a running agent")
            lines = command_lines()
            out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert CANARY.encode() not in lines + out + err
        trace = lab.trace()
        assert trace[0] == f"length {len(CANARY)}", "the agent has the key"
        assert trace[1:3] == ["Remaining time (hours:minutes):", "0:00"], "a hundredth of an hour is a budget"
        environment = dict(line.split("=", 1) for line in trace[3:] if "=" in line)
        assert environment["CANARY_API_KEY"] == "[redacted:CANARY_API_KEY]"
        assert set(environment) <= AGENT_ENV, set(environment) - AGENT_ENV
        text = "\n".join(trace)
        assert "judge" not in text.lower() and str(lab.results) not in text, "nothing of judges, nothing of other runs"
        assert lab.run_dir().parent.name == "toy_length+timer+env+model+sleep2_0.01h"
        places = ("agents/toy/codex_auth.json", "agents/toy/oauth_token", "agents/toy/.env", ".env")
        own = {f"content/{name}" for name in places}
        assert holding(lab.base, CANARY) == ["content/.env"]
        assert set(holding(lab.base, OTHER)) == own
        assert holding(lab.base, SHELL) == []
        frozen = [path.name for path in lab.root.own("bundles").glob("*/agents/toy/*")]
        assert "solve.sh" in frozen and not {"codex_auth.json", "oauth_token", ".env"} & set(frozen)
    finally:
        lab.close()


@pytest.mark.parametrize(
    "name", ["auth.json", "claude_auth_1.json", "oauth_token", "oauth_token.txt", ".env", ".env.local", "id_ed25519"]
)
def test_a_bundle_refuses_what_may_hold_a_secret(lab: Lab, name: str) -> None:
    agent = lab.cwd / "agents" / "toy"
    for path in (agent / name, agent / "deeper" / name):
        path.parent.mkdir(exist_ok=True)
        path.write_text(OTHER)
    (agent / "private.json").write_text(OTHER)
    (agent / "private.json").chmod(0o600)
    listed = bundle.manifest(Content((lab.cwd, REPOSITORY)))
    assert "agents/toy/solve.sh" in listed
    assert not [key for key in listed if key.rpartition("/")[2] in (name, "private.json")]


class Waiting:
    """One run in the queue; nothing starts it until `go`."""

    def __init__(self, lab: Lab, config: str) -> None:
        self.lab = lab
        locks.state_folder(lab.root)
        fd = locks.take_slot(lab.root, "cpu:0")
        assert fd is not None
        self.fd = fd
        process = lab.start("--batch", lab.sweep(config), "--yes", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: list(lab.root.own("journal").glob("*.json")), "a submission")
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()
        self.id = int(next(lab.root.own("queue").iterdir()).name)
        self.spec = json.loads((lab.root.queued(self.id).spec).read_text())

    def go(self) -> None:
        os.close(self.fd)
        self.lab.run("queue", "--kick")


def spoil(lab: Lab) -> None:
    """What a checkout of another branch does to the content."""
    script = lab.cwd / "agents" / "toy" / "solve.sh"
    script.write_text("echo changed\nexit 9\n")
    for name in ("evaluate.py", "evaluate_final_eval.py"):
        script = lab.cwd / "tasks" / "toy" / name
        script.write_text(script.read_text().replace("0.75", "0.25"))


def test_a_run_keeps_to_what_it_was_submitted_with(lab: Lab) -> None:
    """Program and content go away while the run waits, and again while it runs."""
    program = lab.base / "program"
    skip = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("ptb_tui", "backends", "agents", "containers", "judges", "tasks"):
        shutil.copytree(REPOSITORY / name, program / name, ignore=skip)
    lab.env["PYTHONPATH"] = str(program)
    run = Waiting(lab, "saybegun+sleep3+model+sayend")
    spoil(lab)
    shutil.rmtree(program)
    lab.env["PYTHONPATH"] = str(REPOSITORY)
    run.go()
    until(lambda: lab.run_dirs() and lab.step_scratch(), "a running agent")
    shutil.rmtree(lab.cwd / "agents")
    (lab.cwd / "tasks" / "toy" / "evaluate_final_eval.py").unlink()
    ours = command_lines().decode("utf-8", "replace")
    assert str(program) not in ours and "/bundle" in ours
    until(lambda: not lab.root.live(run.id).exists() and lab.run_dirs(), "the end of the run", 120)
    assert lab.trace() == ["begun", "end"]
    assert json.loads((lab.run_dir() / "metrics.json").read_text())["accuracy"] == 0.75
    assert "75.0 %" in lab.run("scores", "--protocol", "toy")


def test_a_directory_that_is_there_already_is_never_filled(lab: Lab) -> None:
    """An old score must not become the score of a new run (and no model lands inside an old one)."""
    run = Waiting(lab, "model")
    old = lab.results / run.spec["method"] / run.spec["run"]
    (old / "final_model").mkdir(parents=True)
    (old / "metrics.json").write_text('{"accuracy": 0.9, "stderr": 0.0}')
    before = {str(path): path.lstat().st_mtime_ns for path in (old, *old.rglob("*"))}
    run.go()
    gone = lab.root.own("never_started") / str(run.id)
    until(gone.is_dir, "the refused run out of the queue")
    ended = [event for event in events.read(gone / "steps" / "001-agent").events if event.kind == "ended"]
    assert [event.data["cause"] for event in ended] == ["prepare_failed"]
    assert str(old) in ended[0].data["why"] and "exists already" in ended[0].data["why"]
    assert {str(path): path.lstat().st_mtime_ns for path in (old, *old.rglob("*"))} == before
    assert "90.0 %" not in lab.run("scores", "--protocol", "toy")
