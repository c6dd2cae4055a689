"""`ptb-tui judge` on a run that has ended: votes of an endpoint, what is there is skipped, judges of today (E §4)."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.sandbox.bubblewrap import Bubblewrap
from tests.e2e.conftest import REPOSITORY, Lab
from tests.judging.chat import chat

pytestmark = [
    pytest.mark.bubblewrap,
    pytest.mark.skipif(not Bubblewrap().probe()[0], reason="bubblewrap does not work here"),
]
KEY = "opens-nothing-at-all-0123"


def asked(lab: Lab, run: int, *more: str, rc: int | None = 0) -> dict[str, Any]:
    """What `judge RUN --dry-run` says about the general judge."""
    words = ("judge", str(run), "--judges", "general", "--dry-run", "--json", *more)
    view: dict[str, Any] = json.loads(lab.run(*words, rc=rc).splitlines()[0])
    line: dict[str, Any] = view["lines"][0]
    return line | {"problems": [problem["words"] for problem in view["problems"]]}


def test_judging_again(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    lab = Lab(tmp_path, sandbox="bubblewrap")
    lab.run("--batch", lab.sweep("exit0"), "--yes", "--timeout", "170", rc=None)
    run, folder = lab.ids()[0], lab.run_dir()
    first = (folder / "judgement_general.json").read_bytes()
    assert asked(lab, run, "--skip-existing")["action"] == "skip"
    blocked = asked(lab, run, "--engine", "openai_api", rc=2)
    assert blocked["action"] == "blocked" and "OPENAI_API_KEY has no value" in blocked["problems"][0]
    with chat() as server:
        config = lab.base / "config" / "ptb-tui" / "config.toml"
        url = server.url("judge+noschema")
        config.write_text(f'[sites.local]\nsandbox = "bubblewrap"\nendpoints = {{ openai_api = "{url}" }}\n')
        (lab.cwd / ".env").write_text(f"JUDGE_API_KEY={KEY}\n")
        lab.env["PTB_ENV_FILE"] = str(lab.cwd / ".env")
        words = ("--engine", "openai_api", "--model", "m", "--votes", "2")
        lab.run("judge", str(run), "999999", "--judges", "general", *words, "--wait", rc=2)
        kept = [json.loads(path.read_text()) for path in sorted((folder / ".ptb/verdicts/general_judge").iterdir())]
        assert [(one["engine"], one["state"], one["votes_wanted"]) for one in kept[1:]] == [
            ("openai_api", "clean", 2)
        ] * 2
        assert kept[1]["run_asked"]["structure"] == "json_object" and kept[2]["vote"] == 2
        assert {request["headers"]["authorization"] for request in server.asked} == {f"Bearer {KEY}"}
        assert asked(lab, run, *words, "--skip-existing")["action"] == "skip"
        assert asked(lab, run, *words[:4], "--votes", "3", "--skip-existing")["votes"] == [3], (
            "only the vote that lacks"
        )
        shutil.copytree(REPOSITORY / "judges" / "general_judge", lab.cwd / "judges" / "general_judge")
        with open(lab.cwd / "judges" / "general_judge" / "prompt.md", "a") as file:
            file.write("\nBe brief.\n")
        assert asked(lab, run, *words, "--skip-existing")["action"] == "skip", "the run has its own judges"
        assert asked(lab, run, *words, "--skip-existing", "--fresh")["votes"] == [1, 2]
        lab.run("judge", str(run), "--judges", "general", *words[:4], "--fresh", "--wait", rc=None)
        assert "Be brief." in server.asked[-1]["body"]["messages"][1]["content"]
    assert (folder / "judgement_general.json").read_bytes() == first and (
        folder / "judgement_general_rerun.json"
    ).exists()
    assert not [p for p in lab.results.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
