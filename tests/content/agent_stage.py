"""An agent that starts a CLI, played as the harness does, with a stand-in for the CLI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptb_tui.content.agents import Agent, load_agent
from ptb_tui.content.lookup import Content
from tests.content.agent_table import CONFIG, PROMPT, TABLE, value
from tests.e2e.conftest import REPOSITORY

CONTENT = Content((REPOSITORY,))
NEEDED = ("bash", "cat", "cp", "date", "dirname", "env", "grep", "head", "id", "mkdir", "sed", "timeout", "tr", "wc")

# Records how it was called, and the command lines of everything between it and the test. What it returns stands in a
# file, a status for each call, the last one for all further calls.
STAND_IN = """#!{python} -IS
import json, os, sys
if sys.argv[1:] == ["--version"]:
    print("1.2.3\\n(stand-in)")
    sys.exit()
lines, pid = [], os.getpid()
while pid not in ({test}, 0):
    with open("/proc/%d/cmdline" % pid, "rb") as file:
        lines.append(file.read().decode())
    with open("/proc/%d/stat" % pid) as file:
        pid = int(file.read().rpartition(")")[2].split()[1])
call = dict(cli=sys.argv[0].rpartition("/")[2], argv=sys.argv[1:], stdin=sys.stdin.read(), env=dict(os.environ),
            above=lines[1:])
with open("{lab}/calls", "a") as file:
    file.write(json.dumps(call) + "\\n")
with open("{lab}/calls") as file:
    number = len(file.readlines())
with open("{lab}/statuses") as file:
    statuses = json.load(file)
sys.exit(statuses[min(number, len(statuses)) - 1])
"""


class Stage:
    """A home as *prepare* makes it, a search path of stand-ins and the few tools that scripts may use."""

    def __init__(self, base: Path, agent: Agent, *, installed: bool = True) -> None:
        self.base, self.agent = base, agent
        self.row = TABLE[agent.name]
        self.home, self.task, self.bin = base / "home", base / "home" / "task", base / "bin"
        for folder in (self.home / "agent", self.task, self.bin):
            folder.mkdir(parents=True)
        for file in agent.files:
            shutil.copy(file, self.home / "agent" / file.name)
        shutil.copy(agent.solve, self.home / "agent_solve.sh")
        for tool in NEEDED:
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)
        if installed:
            self.program(self.row.cli, STAND_IN.format(python=sys.executable, lab=base, test=os.getpid()))
        self.program("sleep", f'#!/bin/bash\necho "$1" >>{base}/sleeps\n')
        self.statuses([0])
        self.timer("9:59", "0:29")
        if self.row.login:
            (self.home / self.row.login).parent.mkdir(parents=True, exist_ok=True)
            (self.home / self.row.login).write_text(f"login-of-{self.row.login}\n")

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def statuses(self, statuses: Sequence[int]) -> None:
        (self.base / "statuses").write_text(json.dumps(statuses))

    def timer(self, *says: str) -> None:
        """A timer.sh that says the n-th thing after n calls of the CLI, and the last one from then on."""
        (self.base / "says").write_text("".join(f"{words}\n" for words in says))
        script = f"calls=$(cat {self.base}/calls 2>/dev/null | wc -l)\nlast=$(wc -l <{self.base}/says)\n"
        script += f'sed -n "$((calls < last ? calls + 1 : last))p" {self.base}/says\n'
        (self.task / "timer.sh").write_text(f"echo 'Remaining time (hours:minutes):'\n{script}")

    def play(self, **env: str) -> subprocess.CompletedProcess[str]:
        self.given = {
            "PATH": str(self.bin),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PROMPT": PROMPT,
            "AGENT_CONFIG": CONFIG,
            "NUM_GPUS": "1",
            "HF_HOME": f"{self.home}/hf_cache",
            "VLLM_API_KEY": "inspectai",
            "PYTHONNOUSERSITE": "1",
            **{key: value(key) for key in self.agent.keys},
            **env,
        }
        return subprocess.run(
            [shutil.which("bash") or "bash", str(self.home / "agent_solve.sh")],
            cwd=self.task,
            env={
                **self.given,
                **self.agent.env,
                **({"PTB_ENDPOINT": self.agent.endpoint} if self.agent.endpoint else {}),
                **env,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def calls(self) -> list[dict[str, Any]]:
        path = self.base / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def sleeps(self) -> list[int]:
        path = self.base / "sleeps"
        return [int(line) for line in path.read_text().split()] if path.exists() else []


def stage(base: Path, name: str, *, installed: bool = True) -> Stage:
    return Stage(base, load_agent(CONTENT, name), installed=installed)
