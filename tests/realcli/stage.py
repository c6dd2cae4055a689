"""A real CLI driven by the real program: its agent's folder, its sandbox, the gateway, and a model that is a script."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.core import files
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.trace import TraceEvent, Usage
from ptb_tui.results.records import StepRecord
from ptb_tui.results.steps import read_steps
from ptb_tui.traces import index
from tests.e2e.conftest import Lab

PORT = 8899
HOME = Path(os.environ.get("PTB_REALCLI_DIR") or "/var/tmp/ptb-realcli")


@dataclass(frozen=True, slots=True)
class Cli:
    """One CLI as the tests use it. `hasty` is an agent that gives up soon, `limited` one whose login is a
    subscription's, where they are others."""

    name: str
    version: str
    agent: str
    config: str
    base: str  # what follows the scenario in the URL
    keys: tuple[str, ...]
    tool: str
    hasty: str = ""
    limited: str = ""


CLIS = {
    cli.name: cli
    for cli in (
        Cli(
            "claude",
            "2.1.332",
            "claude",
            "claude-script",
            "",
            ("ANTHROPIC_API_KEY",),
            "Bash",
            "claude_hasty",
            "claude_token",
        ),
        Cli("codex", "0.171.0", "codex", "gpt-script", "/v1", ("CODEX_API_KEY",), "shell"),
        Cli("gemini", "0.61.0", "gemini", "gemini-2.5-pro", "", ("GEMINI_API_KEY",), "run_shell_command"),
        Cli(
            "opencode",
            "1.18.33",
            "opencode",
            "zai/glm-5",
            "/v1",
            ("ZAI_API_KEY", "OPENCODE_API_KEY", "MODEL_API_KEY"),
            "bash",
            "opencode_hasty",
        ),
    )
}


def key(name: str) -> str:
    """A key that opens nothing."""
    return f"opens-nothing-{name.lower().replace('_', '-')}"


class Stage(Lab):
    """A results root of its own; what is started in it has no network but loopback."""

    def __init__(self, base: Path) -> None:
        super().__init__(base, sandbox="bubblewrap")
        (base / "config" / "ptb-tui" / "config.toml").write_text(
            f'operator = "tester"\n[sites.local]\nsandbox = "bubblewrap"\ncli_store = "{HOME / "clis"}"\n'
        )
        names = sorted({name for cli in CLIS.values() for name in cli.keys})
        (self.cwd / ".env").write_text("".join(f"{name}={key(name)}\n" for name in names))
        hasty = {"CLAUDE_CODE_MAX_RETRIES": "2"}
        self._variant("claude_hasty", "claude", CLIS["claude"].keys, hasty)
        self._variant("claude_token", "claude", (), {"PTB_CLAUDE_TOKEN_FILE": "agent/pass"}, 'files = ["pass"]')
        hasty = {f"OPENCODE_DISABLE_{name}": "1" for name in ("MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD")}
        self._variant("opencode_hasty", "opencode", CLIS["opencode"].keys, hasty)
        (self.cwd / "agents" / "claude_token" / "pass").write_text("opens-nothing-token\n")
        self.log = base / "requests.jsonl"

    def _variant(self, name: str, extends: str, keys: Sequence[str], env: Mapping[str, str], more: str = "") -> None:
        folder = self.cwd / "agents" / name
        folder.mkdir()
        (folder / "api_keys.json").write_text(json.dumps({"allowed_api_keys": list(keys)}))
        table = "".join(f"{variable} = {json.dumps(value)}\n" for variable, value in env.items())
        (folder / "agent.toml").write_text(f'extends = "{extends}"\n{more}\n[env]\n{table}')

    def command(self, *arguments: str) -> list[str]:
        plain = super().command(*arguments)
        if arguments[:1] != ("--batch",):
            return plain
        own = ["unshare", "--net"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--net"]
        return [*own, sys.executable, "-m", "tests.realcli.inside", str(PORT), str(self.log), *plain]

    def play(self, cli: Cli, scenario: str, *, agent: str = "", port: int = PORT, hours: float = 0.5) -> list[str]:
        """Write the sweep of one run; returns the arguments that start it."""
        url = f"http://127.0.0.1:{port}/{scenario}{cli.base}"
        lines = [
            'name = "real"', 'tasks = ["toy"]', 'models = ["local/toy-base"]', "gpus = 0", 'protocol = "toynet"',
            f"hours = {hours}",
            "[[agents]]", f'agent = "{agent or cli.agent}"', f'config = "{cli.config}"',
            "[endpoints]", f'{cli.name} = "{url}"',
        ]  # fmt: skip
        path = self.cwd / "real.toml"
        path.write_text("\n".join(lines) + "\n")
        return ["--batch", str(path), "--yes"]

    def steps(self) -> tuple[StepRecord, ...]:
        """The steps of the only run, the agent's first."""
        return read_steps(RunFiles(self.run_dir() / ".ptb"), {}).steps

    def agent_step(self) -> StepRecord:
        """The agent's step of the only run."""
        return self.steps()[0]

    def events(self) -> list[TraceEvent]:
        """The rows of the trace's index."""
        return list(index.read(RunFiles(self.run_dir() / ".ptb").trace_index))

    def usage(self) -> Usage:
        """What the trace says was used."""
        return index.totals(self.events())

    def provenance(self) -> dict[str, Any]:
        """What is recorded about the run's sources."""
        return files.read_object(self.run_dir() / ".ptb" / "provenance.json") or {}

    def requests(self) -> list[dict[str, Any]]:
        """What the endpoint was asked."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def told(self) -> str:
        """What is known when a test fails."""
        parts = []
        for run in self.run_dirs():
            for name in ("output.log", "error.log", "cli_version.txt", "solve_out.txt"):
                path = run / name
                parts.append(f"--- {name}\n{path.read_text(errors='replace')[-3000:] if path.exists() else 'absent'}")
            parts += [f"--- {path}\n{path.read_text()[-2000:]}" for path in run.glob(".ptb/steps/001*/*.log")]
        return "\n".join(parts)


def install(base: Path) -> None:
    """Put the CLIs, in the versions named above, into the store that all tests share; through the program itself.
    Whoever comes second waits."""
    HOME.mkdir(parents=True, exist_ok=True)
    place = Stage(base)
    place.env = {**os.environ, **place.env, "HOME": os.environ.get("HOME", "/root")}  # npm as it is configured here
    with open(HOME / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (view,) = place.json("agents")
        current = {row["cli"]: row["version"] for row in view["agents"]}
        for cli in CLIS.values():
            wanted = [] if os.environ.get("PTB_REALCLI_NEWEST") else ["--version", cli.version]
            if not wanted or current[cli.name] != cli.version:
                place.run("agents", "update", cli.name, *wanted, seconds=600.0)
    place.close()


__all__ = ["CLIS", "HOME", "PORT", "Cli", "Stage", "install", "key"]
