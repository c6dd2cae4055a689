"""A run gets its CLI from the site's store, keeps it, and says what it was (design §3; H §2.3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.supplies import trees
from tests.e2e.conftest import Lab, until
from tests.supplies.npmlike import Npm

SOLVE = """. "$HOME/agent/cli.sh"
need codex @openai/codex
echo "says $(codex --version)"
[ "$AGENT_CONFIG" != waits ] || codex wait "{go}"
echo "env $DISABLE_UPDATES_OF_TEST"
echo "version: forged" >"$HOME/cli_version.txt"
"""


class Place(Lab):
    """A lab with an agent that starts a CLI, and a stand-in for npm."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.npm = Npm(base / "npm")
        self.env["PATH"] = f"{self.npm.path}:{self.env['PATH']}"
        self.go, self.store = base / "go", base / "cache" / "ptb-tui" / "clis"
        agent = self.cwd / "agents" / "teller"
        agent.mkdir()
        (agent / "api_keys.json").write_text('{"allowed_api_keys": []}')
        (agent / "agent.toml").write_text('v = 1\ntrace = "plain"\ncli = "codex"\nfiles = ["../_shared/cli.sh"]\n')
        (agent / "solve.sh").write_text(SOLVE.format(go=self.go))
        (self.cwd / "containers").mkdir(exist_ok=True)
        (self.cwd / "containers" / "clis.toml").write_text(
            'v = 1\n[cli.codex]\nbinary = "codex"\npackage = "@openai/codex"\nnode = "22"\n'
            'env = { DISABLE_UPDATES_OF_TEST = "1" }\n'
        )

    def teller(self, config: str = "x") -> str:
        path = self.sweep(config, name=f"teller-{config}")
        text = Path(path).read_text().replace('agent = "toy"', 'agent = "teller"')
        Path(path).write_text(text)
        return path

    def configure(self, line: str) -> None:
        path = self.base / "config" / "ptb-tui" / "config.toml"
        path.write_text(path.read_text().replace("[sites.local]\n", f"[sites.local]\n{line}\n"))

    def says(self, words: str) -> Callable[[], bool]:
        """Whether the trace, once there is one, has this line."""
        return lambda: (self.run_dir() / "solve_out.txt").is_file() and words in self.trace()

    def all_words(self, *arguments: str) -> str:
        """Both streams of a command that fails."""
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=120)
        assert process.returncode != 0
        return (out + err).decode()

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run_dir() / ".ptb" / "provenance.json").read_text())["cli"]
        return found

    def record(self) -> dict[str, str]:
        lines = (self.run_dir() / "cli_version.txt").read_text().splitlines()
        return dict(line.split(": ", 1) for line in lines)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()
    trees.remove(place.store)


def test_a_run_keeps_the_version_it_began_with_and_records_it(lab: Place) -> None:
    lab.npm.cli("1.0.0")
    lab.run("agents", "update", "codex")
    with lab.start("--batch", lab.teller("waits"), "--yes") as running:
        until(lab.says("says codex-cli 1.0.0"), "the first words of the CLI")
        lab.npm.cli("2.0.0")
        lab.run("agents", "update", "teller")
        lab.go.touch()
        out, err = running.communicate(timeout=120)
    assert running.returncode == 0, out + err
    assert lab.trace().count("codex-cli 1.0.0") == 1, "what it waited with"
    assert "env 1" in lab.trace()
    lab.site = "served"  # and seen through a link
    (row,) = [row for row in lab.json("agents")[0]["agents"] if row["name"] == "teller"]
    assert (row["version"], row["newest"], row["source"]) == ("2.0.0", "2.0.0", "current")
    assert row["last_run"] in lab.ids() and row["last_used"].startswith("20")
    facts, record = lab.facts(), lab.record()
    assert (facts["from"], facts["why"], facts["version"], facts["node"]) == ("store", "current", "1.0.0", "22.9.9")
    assert record["store"] == facts["digest"] and record["version"] == "codex-cli 1.0.0"
    assert record["update"] == "skipped" and "forged" not in record.values()
    assert record["path"] == f"{lab.store}/codex/1.0.0-{facts['digest'][:12]}/bin/codex"
    log = (lab.run_dir() / "output.log").read_text()
    assert log.count("--- AGENT CLI VERSION ---") == 2 and f"store: {facts['digest']}" in log
    assert f"CLI codex 1.0.0 from the store, digest {facts['digest'][:12]}, current" in log


def test_a_cli_that_nobody_has_blocks_the_plan_and_names_the_remedy(lab: Place) -> None:
    sweep = lab.teller()
    plan = lab.all_words("--batch", sweep, "--dry-run")
    assert "the CLI codex of agent teller is not in the store" in plan
    assert "ptb-tui agents update codex" in plan
    lab.npm.cli("1.0.0")
    lab.run("agents", "update", "codex")
    assert "1 to submit" in lab.run("--batch", sweep, "--dry-run")
    lab.env["CODEX_CLI_VERSION"] = "7.7"
    (lab.cwd / ".env").write_text("CODEX_CLI_VERSION=7.7\n")
    plan = lab.all_words("--batch", sweep, "--dry-run")
    assert "codex 7.7 is asked for by a variable, but it is not in the store" in plan
    assert "ptb-tui agents update codex --version 7.7" in plan


def test_a_pin_holds_for_an_agent_until_it_is_cleared(lab: Place) -> None:
    lab.npm.cli("1.0.0")
    lab.run("agents", "update", "codex")
    lab.npm.cli("2.0.0")
    lab.run("agents", "update", "codex")
    lab.npm.cli("0.9.0")
    kept = lab.run("agents", "update", "codex", "--version", "0.9.0", "--keep")
    assert "codex 0.9.0 is in the store" in kept and "2.0.0 is current" in kept
    assert "agent teller: the next runs get codex 1.0.0" in lab.run("agents", "pin", "teller", "1.0.0")
    lab.run("--batch", lab.teller(), "--yes")
    assert "says codex-cli 1.0.0" in lab.trace()
    assert lab.facts()["why"] == "pinned for the agent"
    assert "is gone" in lab.run("agents", "pin", "teller", "--clear")
    assert "codex 1.0.0 is current again" in lab.run("agents", "rollback", "codex")
    table = lab.run("agents")
    (line,) = [line for line in table.splitlines() if line.startswith("teller")]
    assert line.split()[:4] == ["teller", "codex", "1.0.0", "2.0.0"] and line.endswith("current")


def test_at_the_start_it_is_the_agent_s_own_shell_that_updates(lab: Place) -> None:
    lab.configure('cli_updates = "at-start"')
    lab.npm.path.joinpath("codex").write_text("#!/bin/sh\necho baked\n")
    (lab.cwd / ".env").write_text("POST_TRAIN_BENCH_SKIP_CLI_UPDATE=1\n")
    solve = lab.cwd / "agents" / "teller" / "solve.sh"
    script = f'PATH="{lab.npm.path}:$PATH"\nchmod +x "{lab.npm.path}/codex"\n'
    solve.write_text(script + SOLVE.format(go=lab.go).replace("forged", "of solve.sh"))
    lab.env["PTB_ENV_FILE"] = str(lab.cwd / ".env")
    lab.run("--batch", lab.teller(), "--yes")
    assert "says baked" in lab.trace()
    assert lab.facts()["from"] == "at-start"
    assert (lab.run_dir() / "cli_version.txt").read_text() == "version: of solve.sh\nrecorded_by: agent\n"
    assert not lab.npm.calls()
    view = lab.json("agents")[0]
    assert view["updates"] == "at-start"
    assert [row["source"] for row in view["agents"] if row["name"] == "teller"] == ["installed when the agent starts"]


def test_an_agent_without_a_cli_has_its_record_too(lab: Place) -> None:
    lab.run("--batch", lab.sweep("none"), "--yes")
    assert lab.facts() == {"cli": "", "from": "the agent"}
    assert list(lab.record()) == ["binary", "package", "path", "version", "update", "recorded_at"]
    assert lab.record()["binary"] == "<none>"
    assert (lab.run_dir() / "task" / "system_monitor.log").is_file()


def test_what_cannot_be_meant_is_refused_in_words(lab: Place) -> None:
    for words, said in (
        (("update", "nobody"), "no agent 'nobody'"),
        (("update", "toy"), "agent toy starts no CLI"),
        (("update", "codex", "--version", "file:../x"), "is not a version"),
        (("pin", "codex"), "either VERSION or --clear is needed"),
        (("pin", "codex", "9.9"), "codex 9.9 is not in the store; there are: none"),
        (("rollback", "codex"), "no version of codex was current before this one"),
        (("update", "codex"), "npm view ended with status"),
    ):
        assert said in lab.all_words("agents", *words)
