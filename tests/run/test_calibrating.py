"""What measuring judges would do, and what becomes of an answer."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.content.lookup import Content
from ptb_tui.core import files, settings
from ptb_tui.core.calibration import CalibrationOrder
from ptb_tui.core.errors import NotFound, StepError, UsageError
from ptb_tui.core.layout import Root
from ptb_tui.core.panel import Prices
from ptb_tui.core.settings import Settings
from ptb_tui.core.verdict import VerdictRecord, VerdictState
from ptb_tui.judging.calibration import Answer, folder_of, keep, read
from ptb_tui.run import calibration_plan
from ptb_tui.run.calibrating import Calibration, _job
from ptb_tui.run.calibration_plan import Found
from ptb_tui.run.cases import lay_out
from ptb_tui.run.work import Report

CONTENT = Content.of()


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return settings.load(cwd=tmp_path)


def find(root: Root, known: Settings, **order: Any) -> Found:
    return calibration_plan.find(root, CONTENT, known, CalibrationOrder(**order), {})


def record(case: str = "verbatim", state: VerdictState = VerdictState.CLEAN, **more: Any) -> VerdictRecord:
    verdict = {"general_anomaly": False, "justification_general_anomaly": case}
    return VerdictRecord(
        judge="general_judge", output_id="general", state=state, engine="openai_api",
        verdict=verdict if state is VerdictState.CLEAN else None, **more,
    )  # fmt: skip


def test_what_is_there_is_not_asked_again(tmp_path: Path, known: Settings) -> None:
    root = Root(tmp_path)
    order = {
        "judges": ("general",),
        "engine": "openai_api",
        "model": "m",
        "votes": 2,
        "only": ("verbatim", "abandoned"),
    }
    found = find(root, known, **order)
    assert [(case.name, vote) for case, vote in found.lines[0].ask] == [
        ("abandoned", 1), ("abandoned", 2), ("verbatim", 1), ("verbatim", 2),
    ]  # fmt: skip
    line = found.lines[0]
    digest = {case.name: case.digest for case in line.cases}
    said = record(cost_usd=0.5)
    for case, vote, kept, at in (
        ("verbatim", 1, said, digest["verbatim"]),
        ("verbatim", 2, record(state=VerdictState.TIMED_OUT), digest["verbatim"]),
        ("abandoned", 1, said, "of another day"),
        ("abandoned", 2, record(state=VerdictState.UNREADABLE), digest["abandoned"]),
    ):
        truth = {"general_anomaly": case == "abandoned"}
        tokens = {"input": 100, "output": 10}
        keep(root, line.subject, Answer(case=case, digest=at, vote=vote, expect=truth, record=kept, tokens=tokens))
    found = find(root, known, **order)
    assert [(case.name, vote) for case, vote in found.lines[0].ask] == [("abandoned", 1), ("verbatim", 2)]
    assert len(find(root, known, **order, again=True).lines[0].ask) == 4
    plan = calibration_plan.plan(root, known, found, "process").lines[0]
    assert (plan.ask, plan.there, plan.cost_usd, plan.tokens) == (2, 2, 1.0, 220)
    assert "for 3 before" in plan.basis


def test_an_estimate_before_anything_was_measured(tmp_path: Path, known: Settings) -> None:
    found = find(Root(tmp_path), known, judges=("general",), engine="openai_api", only=("verbatim",))
    plan = calibration_plan.plan(Root(tmp_path), known, found, "process")
    assert plan.lines[0].cost_usd is None and plan.lines[0].tokens == 86_000 and "guess" in plan.lines[0].basis
    assert any(problem.blocks and "sandbox" in problem.words for problem in plan.problems)
    priced = found.lines[0].seat.model_copy(update={"prices": Prices(input=1.0, output=5.0)})
    assert calibration_plan._estimate(
        calibration_plan.Line(found.lines[0].judge, priced, found.lines[0].subject, 1, (), found.lines[0].ask), []
    )["cost_usd"] == pytest.approx(0.11)
    rules = find(Root(tmp_path), known, engine="rules")
    assert calibration_plan.plan(Root(tmp_path), known, rules, "process").problems == ()
    assert len(rules.lines) == 4 and all(line.votes == 1 for line in rules.lines)


def test_mistakes(tmp_path: Path, known: Settings) -> None:
    with pytest.raises(UsageError, match="no judge 'moon'"):
        find(Root(tmp_path), known, judges=("moon",))
    with pytest.raises(NotFound, match="no case 'nine'"):
        find(Root(tmp_path), known, only=("nine",))
    with pytest.raises(NotFound, match="no protocol"):
        find(Root(tmp_path), known, protocol="9.9")


def test_a_case_becomes_a_run_and_its_answer_is_kept(tmp_path: Path, known: Settings) -> None:
    root = Root(tmp_path / "results")
    found = find(root, known, judges=("general",), engine="openai_api", model="m", only=("abandoned",))
    line, case = found.lines[0], found.cases[0]
    run = lay_out(root, found, case, tmp_path / "1", known, "process")
    here = {str(path.relative_to(run.run_dir)) for path in run.run_dir.rglob("*") if path.is_file()}
    assert {"task/evaluate.py", "task/test_data.json", "task/contamination_check.py", "task/train.jsonl"} <= here
    assert {"solve_out.txt", "solve_parsed.txt", ".ptb/egress.jsonl", ".ptb/spec.json"} <= here
    assert "=== Tool call Bash" in (run.run_dir / "solve_parsed.txt").read_text()
    assert not (run.run_dir / "case.toml").exists() and "calibration" not in str(run.run_dir.relative_to(tmp_path))
    work = Calibration(root, found, known, "process", Report(tmp_path))
    job = _job(line, case, 1, run, tmp_path / "steps")
    result = {"cause": "provider_limit", "why": "HTTP 429", "record": 1}
    (run.verdicts / "general_judge").mkdir(parents=True)
    missing = record(state=VerdictState.MISSING, prompt_hash=line.subject.prompt_hash)
    files.replace(run.verdicts / "general_judge" / "001.json", missing.model_dump_json())
    files.replace(job.step / "result.json", files.dump(result))
    with redirect_stdout(io.StringIO()), pytest.raises(StepError, match="HTTP 429"):
        work._take(job)
    assert read(folder_of(root, line.subject)) is None, "a limit is no answer"
    files.replace(job.step / "result.json", files.dump({"record": 1}))
    (job.step / "judge_output.txt").write_text("looked")
    said = io.StringIO()
    with redirect_stdout(said):
        work._take(job)
    kept = read(folder_of(root, line.subject))
    assert kept is not None and [answer.case for answer in kept.answers] == ["abandoned"]
    assert (kept.folder / "kept" / "abandoned-1" / "judge_output.txt").read_text() == "looked"
    assert "no verdict: missing" in said.getvalue() and work.done == 1
    other = record(prompt_hash="changed")
    files.replace(run.verdicts / "general_judge" / "001.json", other.model_dump_json())
    with pytest.raises(StepError, match="words were changed"):
        work._take(job)
