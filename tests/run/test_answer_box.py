"""The answer server beside an attempt (E §1.7.3): it is there when the attempt begins and gone when that has ended."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ptb_tui.core.errors import StepError
from ptb_tui.run.steps import answer_box
from ptb_tui.sandbox.base import Bind, Request, Sandbox, apply_limits
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.sandbox.process import Process
from tests.tasks.loading import REPO
from tests.tasks.test_answer_sandbox import PROBLEM, RIGHT, WRONG

HUMANEVAL = REPO / "tasks" / "humaneval"
ASK = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import answer_scorer
problem, cases = json.load(sys.stdin)
for name, body in cases.items():
    right, _ = answer_scorer.check(problem, problem["prompt"] + body, os.environ["PTB_ANSWER_SOCKET"])
    print(json.dumps([name, right]))
"""


def verdicts(sandbox: Sandbox, tmp: Path, cases: dict[str, str]) -> dict[str, bool]:
    """What an attempt in this sandbox says of some answers, and that nothing of the server is left."""
    (tmp / "home").mkdir()
    code = HUMANEVAL / "evaluation_code"
    with answer_box.beside(HUMANEVAL, tmp / "box", sandbox) as extra:
        assert extra.pids() and all(os.path.exists(f"/proc/{pid}") for pid in extra.pids())
        pids = extra.pids()
        inside = "/opt/code" if sandbox.isolated else str(code)
        binds = (*extra.binds, Bind(code, "/opt/code")) if sandbox.isolated else ()
        env = {"PATH": ":".join(sandbox.path()), **extra.env}
        argv = (sandbox.python(), "-B", "-c", ASK, inside)
        command = sandbox.command(Request(argv, tmp / "home", ".", binds=binds, env=env, scratch=tmp / "sandbox"))
        done = subprocess.run(
            command.argv,
            env=command.env,
            cwd=command.cwd,
            input=json.dumps([PROBLEM, cases]).encode(),
            capture_output=True,
            timeout=300,
            preexec_fn=lambda: apply_limits(command.limits),
        )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    return dict(json.loads(line) for line in done.stdout.splitlines())


def test_without_a_sandbox(tmp_path: Path) -> None:
    long = tmp_path / ("a" * 100)  # no path of a socket may be so long
    long.mkdir()
    assert verdicts(Process(), long, {"right": RIGHT, "wrong": WRONG["exit"]}) == {"right": True, "wrong": False}


@pytest.mark.bubblewrap
def test_in_bubblewrap(tmp_path: Path) -> None:
    """All that must be wrong goes through a whole evaluation in test_humaneval_evaluation.py."""
    long = tmp_path / ("a" * 100)
    long.mkdir()
    cases = {name: WRONG[name] for name in ("exit", "network", "the checker's command line", "kill the first process")}
    assert verdicts(Bubblewrap(), long, {**cases, "right": RIGHT}) == {**dict.fromkeys(cases, False), "right": True}


def test_a_server_that_does_not_start_is_the_sites_matter(tmp_path: Path) -> None:
    task = tmp_path / "task"
    shutil.copytree(HUMANEVAL / "evaluation_code", task / "evaluation_code")
    (task / answer_box.SERVER / "box.py").write_text("import sys\nsys.exit('answer sandbox: no namespaces for you')\n")
    box = answer_box.beside(task, tmp_path / "box", Process())
    with pytest.raises(StepError, match="did not start: no namespaces for you") as caught, box:
        pass
    assert caught.value.cause == "sandbox" and caught.value.hint


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from ptb_tui.run.steps import answer_box
from ptb_tui.sandbox.process import Process
with answer_box.beside(Path({str(HUMANEVAL)!r}), Path({str(tmp_path / "box")!r}), Process()) as extra:
    print(*extra.pids(), flush=True)
    sys.stdin.read()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=str(REPO), text=True
    )
    assert child.stdin is not None and child.stdout is not None
    pids = [int(word) for word in child.stdout.readline().split()]
    assert len(pids) >= 3
    watched = [os.pidfd_open(pid) for pid in pids]
    child.kill()
    child.wait(30)
    for fd in watched:
        ready, _, _ = select.select([fd], [], [], 30)
        assert ready, "the server outlived the step"
        os.close(fd)
    child.stdin.close()
    child.stdout.close()
