"""An agent that fills its scratch is stopped with a cause of its own, in whatever sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptb_tui.core import events
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from tests.e2e.conftest import Lab


@pytest.fixture(params=["process", pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    if request.param == "bubblewrap" and not Bubblewrap().probe()[0]:
        pytest.skip("bubblewrap does not work here")
    lab = Lab(tmp_path, sandbox=request.param)
    yield lab
    lab.close()


def test_more_disk_than_a_run_may_use_ends_it(lab: Lab) -> None:
    config = lab.base / "config" / "ptb-tui" / "config.toml"
    config.write_text(config.read_text().replace("[sites.local]\n", "[sites.local]\nscratch_gib = 0.02\n"))
    (lab.cwd / "agents" / "toy" / "solve.sh").write_text(
        'python3 "$HOME/agent/make_model.py" final_model\nhead -c 30M /dev/zero >big\n'
        "trap 'echo heard; exit 0' TERM\nwhile :; do sleep 0.1; done\n"
    )
    lab.run("--batch", lab.sweep("x"), "--yes", rc=None)
    run = lab.run_dir()
    end = next(e.data for e in events.read(run / ".ptb" / "steps" / "001-agent").events if e.kind == "ended")
    assert (end["outcome"], end["cause"]) == ("failed", "disk_full"), end
    assert "heard" in lab.trace() and (run / "final_model" / "config.json").is_file()
    assert json.loads((run / ".ptb" / "steps" / "001-agent" / "exit.json").read_text())["stopped"] == "disk_full"
