"""The real thing: codex from npm, kept in a store, started from there in a sandbox without a network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ptb_tui.content.lookup import Content
from ptb_tui.run.sources.cli import TARGET, table
from ptb_tui.sandbox.base import Bind, Request
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.supplies import getting
from ptb_tui.supplies.store import Store
from tests.e2e.conftest import REPOSITORY
from tests.realcli.stage import CLIS, HOME


@pytest.mark.realcli
def test_codex_starts_from_the_store_without_a_network(tmp_path: Path) -> None:
    known, store, box = table(Content((REPOSITORY,))), Store(HOME / "clis"), Bubblewrap()
    made = getting.update(store, "codex", known.cli["codex"], known.node, CLIS["codex"].version, print)
    assert made.version == CLIS["codex"].version and made.node.startswith("22.")
    (tmp_path / "home" / "task").mkdir(parents=True)
    request = Request(
        argv=("bash", "-c", "type -P codex; codex --version; /opt/ptb/cli/node/bin/node --version"),
        home=tmp_path / "home",
        workdir="task",
        binds=(Bind(store.tree(made), TARGET),),
        env={"PATH": f"{TARGET}/bin:/usr/bin:/bin", "HOME": "/home/ben"},
        network="none",
    )
    command = box.command(request)
    done = subprocess.run(command.argv, env=command.env, cwd=command.cwd, capture_output=True, text=True, timeout=120)
    words = [f"{TARGET}/bin/codex", f"codex-cli {made.version}", f"v{made.node}"]
    assert done.stdout.splitlines() == words, done.stderr
