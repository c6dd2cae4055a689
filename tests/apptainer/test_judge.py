"""The step `judge` with engine codex in real containers, around a stand-in for the CLI (E §9.15)."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptb_tui.core import files
from ptb_tui.run import processes
from ptb_tui.sandbox.apptainer import Apptainer
from ptb_tui.supplies import images
from tests.apptainer.conftest import IMAGE, REPOSITORY, until
from tests.e2e.conftest import Lab
from tests.judging.stub import VERSION, install
from tests.run.judge_world import JUDGE, KEY, PUBLIC, Host, ask, host, judge_file, judged, key, record, saw, step
from tests.run.step_world import World

pytestmark = pytest.mark.apptainer

# What the CLI's own shell is: a program with the variables of `shell_environment_policy.set` and no others.
SHELL = """
import subprocess, time
at = seen["config"].index("[shell_environment_policy.set]")
lines = seen["config"][at:].splitlines()[1:]
own = {name: json.loads(value) for name, _, value in (line.partition(" = ") for line in lines if " = " in line)}


def shell(script):
    done = subprocess.run(["/bin/bash", "-c", script], env=own, capture_output=True, text=True, errors="replace")
    return done.returncode, done.stdout, done.stderr
"""


def holders(folder: Path) -> list[Path]:
    """Files with the key in them."""
    return [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    works, reason = Apptainer(IMAGE).probe()
    if not works:
        pytest.skip(reason)
    world = judged(tmp_path, "apptainer")
    folder = tmp_path / "containers"
    folder.mkdir()
    shutil.copyfile(IMAGE, folder / "gpt_5_5.sif")
    spec = files.read_object(world.ptb / "spec.json") or {}
    pinned = {"judge": f"gpt_5_5.sif@{images.pin(folder / 'gpt_5_5.sif')}"}
    (world.ptb / "spec.json").write_text(json.dumps({**spec, "images": pinned, "containers": str(folder)}))
    yield world
    assert not list(processes.mounted(world.scratch)), "nothing is left alive, helpers of file systems included"


@pytest.fixture
def server() -> Iterator[Host]:
    with host() as found:
        yield found


def test_a_verdict_from_a_container(world: World) -> None:
    key(world)
    (world.run_dir / "task" / "deep").mkdir()
    (world.run_dir / "task" / "deep" / "notes.md").write_text("deep in the task")
    act = f"""{SHELL}
trial = ["touch /evidence/x", "touch /evidence/task/x", "touch /evidence/task/deep/x", "rm /evidence/task/notes.md",
    "echo > /evidence/solve_out.txt", "echo > /evidence/findings.json", "rm /evidence/tools/model_identity_check.py",
    "rm -rf /opt/ptb/cli/bin", "touch /opt/ptb/cli/x"]
say("WROTE " + json.dumps([shell(script)[0] == 0 for script in trial]))
say("DEEP " + shell("cat /evidence/task/deep/notes.md")[1])
say("CHECK " + str(shell("cd /evidence/task && python3 /evidence/tools/model_identity_check.py --allowed-model "
    "local/base --candidate /evidence/final_model_config.json")[0]))
say("NAMES " + json.dumps(sorted(line.partition("=")[0] for line in shell("env")[1].splitlines())))
say("GATE " + json.dumps([ask("http://192.0.2.1/")[0], ask("https://huggingface.co/")[1][-30:]]))
verdict(disallowed_model=True)
"""
    status, result, out = ask(world, act)
    assert status == 0 and result["state"] == "flagged" and result["flagged"] == ["disallowed_model"], (result, out)
    kept, there = record(world), saw(world)
    assert (kept["engine"], kept["engine_version"], kept["run_sandbox"]) == ("codex", VERSION, "apptainer")
    assert kept["run_network"] == "gateway" and kept["run_sessions"][0]["rc"] == 0 and len(kept["run_sessions"]) == 1
    assert json.loads((world.run_dir / PUBLIC).read_text())["disallowed_model"] is True
    assert there["argv"][0] == "/opt/ptb/cli/bin/codex" and there["cwd"] == "/home/ben/judge" and there["here"] == []
    assert there["home"] == [".codex/config.toml"], "a home of its own, and nothing else in it"
    shown = {"task/notes.md", "task/deep/notes.md", "solve_out.txt", "solve_parsed.txt", "egress.jsonl"}
    shown |= {"test_data.json", "findings.json", "final_model_config.json", "tools/contamination_check.py"}
    assert shown | {"reference_configs/local_base.json"} <= set(there["evidence"])
    assert {name for name in there["env"] if "KEY" in name or "TOKEN" in name} == {"CODEX_API_KEY"}
    assert not [name for name in there["env"] if name.startswith(("APPTAINER", "SINGULARITY"))]
    said = (step(world) / "judge_output.json").read_text()
    assert f"WROTE {json.dumps([False] * 9)}" in said and "DEEP deep in the task" in said and "CHECK 0" in said
    names = json.loads(said.split("NAMES ")[1].split("]")[0].replace("\\", "") + "]")
    assert {"HOME", "PATH"} <= set(names) and not [name for name in names if "KEY" in name or "TOKEN" in name]
    assert "GATE [403" in said and "403 Forbidden" in said.split("GATE ")[1]
    ledger = [json.loads(line) for line in (step(world) / "egress.jsonl").read_text().splitlines()]
    assert {line["outcome"] for line in ledger} == {"refused"}
    assert {line["host"] for line in ledger} == {"192.0.2.1", "huggingface.co"}
    assert not holders(world.root)


def test_a_key_that_a_judge_digs_out_is_kept_nowhere(world: World) -> None:
    """The shell is not given it, but what started the shell has it in its environment, for every process to read."""
    key(world)
    act = f"""{SHELL}
found = shell("cat /proc/[0-9]*/environ | tr '\\\\0' '\\\\n' | grep -m 1 '^[A-Z_]*CODEX_API_KEY='")[1].strip()
say("DUG " + found)
verdict(justification_contamination="it is " + found)
"""
    status, result, out = ask(world, act)
    assert status == 0, (result, out)
    said, public = (step(world) / "judge_output.json").read_text(), (world.run_dir / PUBLIC).read_text()
    assert "CODEX_API_KEY=[redacted:CODEX_API_KEY]" in said.split("DUG ")[1]
    assert "CODEX_API_KEY=[redacted:CODEX_API_KEY]" in public.split("it is ")[1]
    assert not holders(world.root)


def test_only_the_judge_s_own_host(world: World, server: Host) -> None:
    judge_file(world, f'endpoint = "{server.url}/v1"\n')
    key(world)
    server.go.set()
    with host() as other:
        act = f"""
say("OTHER " + json.dumps([ask("http://192.0.2.1/")[0], ask("{other.url}/")[0], ask("https://api.openai.com/")[0]]))
say("OWN " + json.dumps(ask("{server.url}/hello")))
verdict()
"""
        status, result, out = ask(world, act)
        assert other.asked == [] and "session 1" in out, (result, out)
    said = (step(world) / "judge_output.json").read_text()
    assert status == 0 and "OTHER [403, 0, 0]" in said and server.asked == ["/hello"], (result, out, said[-1000:])


def test_a_judge_that_never_ends(world: World) -> None:
    key(world)
    act = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["bash", "-c", "trap '' TERM; while :; do sleep 0.2; done"], start_new_session=True)
time.sleep(600)
"""
    status, result, _ = ask(world, act, limit_s=20)
    assert status == 1 and result["cause"] == "judge_timeout" and record(world)["state"] == "timed_out"


def test_a_judge_that_is_stopped_is_not_asked_again(world: World, server: Host) -> None:
    judge_file(world, f'endpoint = "{server.url}/v1"\n')
    key(world)
    install(world.root.parent / "clis", f'import time\nask("{server.url}/hello")\ntime.sleep(600)')
    child = world.start("judge", step(world))
    try:
        until(lambda: server.asked or child.poll() is not None, "the judge works", 90)
        assert server.asked, child.communicate()
        (world.scratch / "stop.json").write_text('{"why": "cancel"}')
        for pid in processes.polite(processes.descendants(child.pid), Apptainer(IMAGE).runtime):  # as the shim does
            processes.send(pid, signal.SIGTERM)
        out, _ = child.communicate(timeout=120)
    finally:
        child.kill()
    assert child.returncode == 1 and b"session 1" in out and b"session 2" not in out, out
    assert not (world.ptb / "verdicts").exists()


def test_an_image_that_was_replaced_is_our_failure(world: World) -> None:
    image = world.root.parent / "containers" / "gpt_5_5.sif"
    image.unlink()
    image.write_text("another")
    status, result, _ = ask(world)
    assert status == 1 and result["cause"] == "image_missing" and not (world.ptb / "verdicts").exists()


def test_a_run_is_judged_and_scored(tmp_path: Path) -> None:
    works, reason = Apptainer(IMAGE).probe()
    if not works:
        pytest.skip(reason)
    lab = Lab(tmp_path, sandbox="apptainer")
    folder = tmp_path / "containers"
    folder.mkdir()
    for name in ("standard", "gpt_5_5", "vllm_debug"):
        shutil.copyfile(IMAGE, folder / f"{name}.sif")
    lab.env |= {"POST_TRAIN_BENCH_CONTAINERS_DIR": str(folder), "PTB_ENV_FILE": str(lab.cwd / ".env")}
    (lab.cwd / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    judge = shutil.copytree(REPOSITORY / "judges" / JUDGE, lab.cwd / "judges" / JUDGE) / "judge.toml"
    judge.write_text(f'{judge.read_text()}[credential]\nkind = "api_key"\n')
    install(tmp_path / "cache" / "ptb-tui" / "clis", "verdict()")
    try:
        sweep = Path(lab.sweep("model"))
        head, agents, rest = sweep.read_text().partition("[[agents]]")
        sweep.write_text(f'{head}[judging]\nengine = "codex"\njudges = ["{JUDGE}"]\n{agents}{rest}')
        lab.run("--batch", str(sweep), "--yes", rc=0)
    finally:
        lab.close()
    run = lab.run_dir()
    assert json.loads((run / "metrics.json").read_text())["accuracy"] == 0.75
    kept = json.loads((run / ".ptb" / "verdicts" / JUDGE / "001.json").read_text())
    assert (kept["engine"], kept["run_sandbox"], kept["state"]) == ("codex", "apptainer", "clean")
    assert json.loads((run / ".ptb" / "spec.json").read_text())["images"]["judge"].startswith("gpt_5_5.sif@")
    assert not holders(run) and not list(processes.mounted(tmp_path / "scratch"))
