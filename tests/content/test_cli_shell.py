"""`need` of agents/_shared/cli.sh: what is recorded about a CLI, and updates at the start (H §2.3)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import REPOSITORY

SCRIPT = """set -eu
. {shared}/cli.sh
need {binary} @openai/codex
env | grep ^PTB_CLI_ || echo "no more of it"
"""
# Installs a codex into --prefix that says the version it was asked for, or fails.
NPM = """#!/bin/bash
echo "$*" >>"$HOME/npm.calls"
[ -z "$NPM_FAILS" ] || { echo "npm error network"; exit 1; }
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/bin"
for word in "$@"; do last=$word; done
printf '#!/bin/sh\\necho "%s"\\n' "${last##*@}" >"$2/bin/codex"
chmod +x "$2/bin/codex"
"""
CURL = """#!/bin/bash
for word in "$@"; do last=$word; done
[ "$last" = https://vendor.example/install ] || exit 22
echo 'mkdir -p "$HOME/.local/bin"; printf "#!/bin/sh\\necho 7.7\\n" >"$HOME/.local/bin/grok"'
echo 'chmod +x "$HOME/.local/bin/grok"'
"""


class Shell:
    def __init__(self, base: Path) -> None:
        self.base, self.home, self.bin = base, base / "home", base / "bin"
        self.home.mkdir()
        self.bin.mkdir()
        self.program("npm", NPM)
        self.program("curl", CURL)
        self.program("codex", "#!/bin/sh\necho baked 1.0\n")

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def need(self, binary: str = "codex", **env: str) -> subprocess.CompletedProcess[str]:
        script = SCRIPT.format(shared=REPOSITORY / "agents" / "_shared", binary=binary)
        path = f"{self.home}/.local/bin:{self.bin}:/usr/bin:/bin"
        return subprocess.run(
            ["bash", "-c", script], env={"PATH": path, "HOME": str(self.home), **env}, cwd=self.base,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def record(self) -> dict[str, str]:
        lines = (self.home / "cli_version.txt").read_text().splitlines()
        return dict(line.split(": ", 1) for line in lines)

    def calls(self) -> list[str]:
        path = self.home / "npm.calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


SIX = ["binary", "package", "path", "version", "update", "recorded_at"]


def test_in_store_mode_nothing_is_downloaded_and_the_digest_is_recorded(shell: Shell) -> None:
    done = shell.need(PTB_CLI_STORE="abc123", CODEX_CLI_VERSION="9.9")
    assert done.returncode == 0 and done.stdout == "no more of it\n", done.stderr
    record = shell.record()
    assert list(record) == [*SIX, "store"] and record["store"] == "abc123"
    assert (record["version"], record["update"]) == ("baked 1.0", "skipped")
    assert not shell.calls()


def test_at_the_start_the_newest_is_installed_into_the_home(shell: Shell) -> None:
    done = shell.need(PTB_CLI_UPDATES="at-start")
    assert done.returncode == 0 and "installing @openai/codex@latest" in done.stderr
    record = shell.record()
    assert list(record) == SIX
    assert (record["version"], record["update"]) == ("latest", "success")
    assert record["path"] == f"{shell.home}/.local/bin/codex"
    assert shell.calls() == [f"install -g --prefix {shell.home}/.local --no-fund --no-audit @openai/codex@latest"]


@pytest.mark.parametrize(
    ("said", "calls"), [("1", 0), ("TRUE", 0), ("yes", 0), ("On", 0), ("", 1), ("0", 1), ("no", 1)]
)
def test_the_opt_out_of_the_original(shell: Shell, said: str, calls: int) -> None:
    assert shell.need(PTB_CLI_UPDATES="at-start", POST_TRAIN_BENCH_SKIP_CLI_UPDATE=said).returncode == 0
    assert len(shell.calls()) == calls
    assert shell.record()["update"] == ("success" if calls else "skipped")


def test_an_update_that_fails_goes_on_with_what_is_there(shell: Shell) -> None:
    done = shell.need(PTB_CLI_UPDATES="at-start", NPM_FAILS="1")
    assert done.returncode == 0 and "[update_cli] npm error network" in done.stderr
    assert (shell.record()["version"], shell.record()["update"]) == ("baked 1.0", "failed")


def test_a_version_that_is_asked_for_is_strict(shell: Shell) -> None:
    pinned = {"PTB_CLI_UPDATES": "at-start", "CODEX_CLI_VERSION": "2.1.198", "POST_TRAIN_BENCH_SKIP_CLI_UPDATE": "1"}
    assert shell.need(**pinned).returncode == 0
    record = shell.record()
    assert list(record) == [*SIX, "requested_version"]
    assert (record["version"], record["requested_version"]) == ("2.1.198", "2.1.198")
    os.unlink(shell.home / "cli_version.txt")
    done = shell.need(**pinned, NPM_FAILS="1")
    assert done.returncode == 1 and "agent: @openai/codex 2.1.198 cannot be installed" in done.stderr
    assert not (shell.home / "cli_version.txt").exists()


def test_an_installer_runs_only_where_the_command_is_missing(shell: Shell) -> None:
    given = {"PTB_CLI_UPDATES": "at-start", "PTB_CLI_INSTALLER": "https://vendor.example/install"}
    assert shell.need("grok", **given).returncode == 0
    assert (shell.record()["version"], shell.record()["update"]) == ("7.7", "success")
    assert shell.need("grok", **given, POST_TRAIN_BENCH_SKIP_CLI_UPDATE="0").returncode == 0
    assert shell.record()["update"] == "skipped" and not shell.calls()
    os.unlink(shell.home / ".local" / "bin" / "grok")
    done = shell.need("grok", PTB_CLI_UPDATES="at-start", PTB_CLI_INSTALLER="https://elsewhere.example/")
    assert done.returncode == 1 and "the installer of grok cannot be fetched" in done.stderr


def test_a_command_that_is_missing_is_127_with_its_name(shell: Shell) -> None:
    os.unlink(shell.bin / "codex")
    done = shell.need()
    assert done.returncode == 127
    assert done.stderr == "agent: the command codex is not installed in this image\n"
