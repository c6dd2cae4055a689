"""What was measured of a judge, beside its verdict in `show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptb_tui.cli import main
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.verdict import VerdictRecord, VerdictState
from ptb_tui.judging import history
from ptb_tui.judging.calibration import Answer, Subject, keep
from tests.cli.drive import environment
from tests.results.trees import own_run

JUDGE = "general_judge"


def record(words: str = "words", model: str = "m") -> VerdictRecord:
    verdict: dict[str, bool | str] = {"general_anomaly": False, "justification_general_anomaly": "line 4"}
    return VerdictRecord.model_validate(
        {
            "judge": JUDGE, "output_id": "general", "state": VerdictState.CLEAN, "verdict": verdict, "engine": "codex",
            "model": model, "prompt_hash": words, "effort": "high",
        }
    )  # fmt: skip


def test_beside_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    root = Root(tmp_path / "results")
    run = RunFiles(own_run(root, 7, verdicts={}) / ".ptb")
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def shown() -> dict[str, str]:
        assert main(["show", "7", "--json"]) == 0
        verdicts = json.loads(capsys.readouterr().out)["verdicts"]
        found = {verdict["judge"]: verdict["calibration"] for verdict in verdicts}
        assert all(value is None for judge, value in found.items() if judge != JUDGE), "no verdict, nothing beside it"
        return found[JUDGE] or {}

    assert shown() == {}
    history.append(run, record())
    assert shown()["words"] == "not calibrated"
    subject = Subject(judge=JUDGE, engine="codex", model="m", effort="high", prompt_hash="words")
    for case, truth in (("a", True), ("b", False)):
        flagged = record().model_copy(update={"verdict": {"general_anomaly": truth}})
        keep(root, subject, Answer(case=case, digest="d", expect={"general_anomaly": truth}, record=flagged))
    assert shown()["words"] == "measured: 1/1 found (95 %: 21–100 %), 0/1 false (95 %: 0–79 %)"
    main(["show", "7"])
    assert "measured: 1/1 found" in capsys.readouterr().out
    history.append(run, record("other words"))
    assert shown()["state"] == "stale" and "other words" in shown()["words"]
    history.append(run, record(model="n"))
    assert shown()["state"] == "stale" and "of m high" in shown()["words"]
