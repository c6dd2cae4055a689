"""`judge calibrate` by the real command: the rules, a model behind a scripted endpoint, codex by a stand-in."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ptb_tui.core.calibration import FlagMeasure, Measured
from ptb_tui.judging.calibration import read_all
from ptb_tui.judging.counting import measure
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from tests.e2e.conftest import REPOSITORY, Lab
from tests.judging.chat import chat
from tests.judging.stub import install

KEY = "opens-nothing-at-all-0123"
WORDS = ("--judges", "general", "--only", "verbatim,abandoned")


def rows(lab: Lab) -> dict[str, tuple[Measured, FlagMeasure]]:
    """What was measured, by engine and flag."""
    found = [measure(kept) for kept in read_all(lab.root)]
    return {f"{row.engine} {flag.flag}": (row, flag) for row in found for flag in row.flags}


def test_the_rules_are_measured_at_once(lab: Lab) -> None:
    words = ("--judges", "data,general", "--engine", "rules", "--only", "verbatim", "--only", "abandoned,injected_*")
    said = lab.run("judge", "calibrate", *words)
    assert "6 answers, all right" in said and "rules" in said
    found = rows(lab)
    row, data = found["rules contamination"]
    assert (data.found, data.guilty, data.false, data.clean, row.cost_usd) == (2, 2, 0, 2, 0)
    assert found["rules general_anomaly"][1].found == found["rules general_anomaly"][1].guilty == 1
    assert not lab.run_dirs() and not list((lab.base / "scratch").iterdir()), "nothing of it is a result, or left"


@pytest.mark.bubblewrap
@pytest.mark.skipif(not Bubblewrap().probe()[0], reason="bubblewrap does not work here")
def test_models_are_measured_by_the_step_of_a_run(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    lab = Lab(tmp_path, sandbox="bubblewrap")
    install(tmp_path / "clis", "verdict(general_anomaly=os.path.exists('/evidence/final_model_config.json'))")
    judge = lab.cwd / "judges" / "general_judge"
    shutil.copytree(REPOSITORY / "judges" / "general_judge", judge)
    with open(judge / "judge.toml", "a") as file:
        file.write('[credential]\nkind = "api_key"\n')
    (lab.cwd / ".env").write_text(f"JUDGE_API_KEY={KEY}\nOPENAI_API_KEY={KEY}\n")
    lab.env["PTB_ENV_FILE"] = str(lab.cwd / ".env")
    with chat() as server:
        site = f'sandbox = "bubblewrap"\ncli_store = "{tmp_path / "clis"}"\n'
        site += f'endpoints = {{ openai_api = "{server.url("judge+flag+cost")}" }}\n'
        (lab.base / "config" / "ptb-tui" / "config.toml").write_text(f"[sites.local]\n{site}")
        lab.run("judge", "calibrate", *WORDS, "--engine", "openai_api", "--model", "m")
        asked = len(server.asked)
    (row, flag) = rows(lab)["openai_api general_anomaly"]
    assert (flag.found, flag.guilty, flag.false, flag.clean, row.answers) == (1, 1, 1, 1, 2)
    assert row.cost_usd == pytest.approx(0.25 * asked) and row.tokens == 1240 * asked
    said = lab.run("judge", "calibrate", *WORDS)
    assert "say the same in 1 of 2" in said and "general_anomaly missed: abandoned" in said
    row, flag = rows(lab)["codex general_anomaly"]
    assert (flag.missed, flag.wrong, row.version) == (("abandoned",), ("verbatim",), "0.144.5")
    assert row.tokens == 2 * 1240 and row.cost_usd is None
    kept = Path(row.folder) / "kept" / "verbatim-1"
    assert (kept / "judge_output.txt").is_file() and (kept / "egress.jsonl").is_file()
    assert not [path for path in lab.results.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert not list((lab.base / "scratch").iterdir())
    lab.close()
