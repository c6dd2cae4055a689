"""Who would be asked again, and about which runs: the plan of `judge`, without asking anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptb_tui.content.judges import load_judge
from ptb_tui.content.lookup import Content
from ptb_tui.core.action import Cancel, Evaluate, Judge, Retry
from ptb_tui.core.errors import NotAllowed, PtbError, UsageError
from ptb_tui.core.judging import JudgingQuery, JudgingView, Request
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.panel import Seat
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import JudgePlan
from ptb_tui.core.verdict import VerdictRecord, VerdictState
from ptb_tui.judging.engines.rules import rules_hash
from ptb_tui.judging.history import append
from ptb_tui.site import judging
from ptb_tui.site.actions import Doer
from ptb_tui.site.judging_votes import seats_of
from ptb_tui.site.local import LocalSite
from tests.results.trees import CLEAN, MODELS, foreign_run, own_run

DATA = "data_contamination_judge"
THEIRS, RUNNING, OURS = 17_500_000, 17_500_001, 9
CODEX, API, RULES = Seat(engine="codex", model="a"), Seat(engine="openai_api", model="b"), Seat(engine="rules")


def asked(seats: tuple[Seat, ...], *, fresh: bool = False, **request: Any) -> tuple[list[str], tuple[int, ...]]:
    judge = load_judge(Content.of(), DATA)
    plan = JudgePlan(judge=DATA, engine=seats[0].engine, votes=len(seats), seats=seats)
    found, votes = seats_of(judge, plan, Request(**request), "", fresh=fresh)
    return [f"{seat.engine} {seat.model}".strip() for seat in found], votes


@pytest.mark.parametrize(
    ("seats", "request_", "who", "votes"),
    [
        ((CODEX, API, API), {}, ["codex a", "openai_api b", "openai_api b"], (1, 2, 3)),
        ((CODEX, API, API), {"engine": "openai_api"}, ["codex a", "openai_api b", "openai_api b"], (2, 3)),
        ((CODEX, API, API), {"engine": "openai_api", "votes": 1}, ["openai_api b"], (1,)),
        ((CODEX, CODEX, CODEX), {"engine": "openai_api", "model": "m"}, ["openai_api m"] * 3, (1, 2, 3)),
        ((CODEX,), {"votes": 2}, ["codex a"] * 2, (1, 2)),
        ((CODEX, CODEX, CODEX), {"engine": "rules"}, ["rules"], (1,)),
        ((CODEX, RULES), {"engine": "rules"}, ["codex a", "rules"], (2,)),
        ((RULES,), {"fresh": True}, ["rules"], (1,)),
        ((CODEX, API), {"model": "m"}, ["codex m", "openai_api m"], (1, 2)),
    ],
)
def test_an_engine_of_the_panel_gives_its_own_votes(
    seats: tuple[Seat, ...], request_: dict[str, Any], who: list[str], votes: tuple[int, ...]
) -> None:
    assert asked(seats, **request_) == (who, votes)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalSite:
    monkeypatch.setenv("PTB_DATA_DIR", str(tmp_path / "data"))
    beside = tmp_path / "beside"
    settings = Settings({"POST_TRAIN_BENCH_EXTRA_RESULTS_DIRS": str(beside)}, {}, None, None, None, "ada")
    for run_id, timed in ((THEIRS, "09:59:59\n"), (RUNNING, None)):
        foreign_run(
            Root(beside), "claude_non_api_opus_10h", "gsm8k", MODELS[0], run_id, time_taken=timed,
            metrics='{"accuracy": 0.5}' if timed else None,
        )  # fmt: skip
    own_run(Root(beside), OURS, verdicts=CLEAN, experiment="_there")
    codex = JudgePlan(judge=DATA, engine="codex", votes=3, effect="baseline", seats=(CODEX,) * 3)
    own_run(Root(tmp_path / "results"), 7, verdicts=CLEAN, judges=(codex,))
    return LocalSite(settings, tmp_path / "results")


def view(site: LocalSite, run: int, **request: Any) -> JudgingView:
    return judging.answer(site, JudgingQuery(run=str(run), request=Request(**request)))


def test_a_run_of_others_gets_the_judges_of_a_protocol(site: LocalSite) -> None:
    found = view(site, THEIRS, protocol="1.2", judges=("data",))
    assert [(line.judge, line.wanted) for line in found.lines] == [(DATA, 3)]
    assert found.place.startswith(str(site.root.own("overlay")))
    found = view(site, THEIRS, protocol="1.2", judges=("data",), engine="rules")
    assert "evidence beside what codex" in found.lines[0].why and found.lines[0].action == "ask"
    with pytest.raises(NotAllowed, match="its agent has ended"):
        view(site, RUNNING)
    with pytest.raises(PtbError, match="no protocol"):
        view(site, THEIRS, protocol="9.9")
    with pytest.raises(UsageError, match="its own protocol"):
        view(site, 7, protocol="1.2")


def test_ours_in_a_root_that_is_only_read(site: LocalSite) -> None:
    found = view(site, OURS)
    assert found.place.startswith(str(site.root.own("overlay"))) and found.lines
    for action in (Cancel(run=str(OURS)), Evaluate(run=str(OURS)), Retry(run=str(OURS))):
        with pytest.raises(NotAllowed, match="which is only read here"):
            Doer(site).do(action, f"token-{action.kind}")
    assert not [path for path in (site.root.path.parent / "beside").rglob("*") if path.name == "cancel.json"]


def test_what_is_there_as_evidence_is_no_vote_that_is_there(site: LocalSite) -> None:
    run = RunFiles(site.record("7").path / ".ptb")
    said = {"contamination": False, "justification_contamination": "x"}
    more = {"engine": "rules", "prompt_hash": rules_hash(), "source": "evidence"}
    append(run, VerdictRecord(judge=DATA, output_id="gpt5_4", state=VerdictState.CLEAN, verdict=said, **more))
    assert view(site, 7, judges=("data",), engine="rules", skip_existing=True).lines[0].action == "skip"
    assert view(site, 7, judges=("gpt5_4",), skip_existing=True).lines[0].votes == (1, 2, 3)
    with pytest.raises(NotAllowed, match="codex"):
        Doer(site).do(Judge(run="7", request=Request(judges=("data",))), "token-judge")


def test_a_verdict_whose_public_copy_was_lost_in_a_crash_comes_back(site: LocalSite) -> None:
    folder = site.record("7").path
    (folder / "judgement_gpt5_4.json").unlink()
    said: dict[str, bool | str] = {"contamination": True, "disallowed_model": False}
    said |= {f"justification_{flag}": "x" for flag in said}
    record = VerdictRecord(
        judge=DATA,
        output_id="gpt5_4",
        state=VerdictState.FLAGGED,
        verdict=said,
        engine="rules",
        prompt_hash=rules_hash(),
    )
    append(RunFiles(folder / ".ptb"), record)
    (folder / "judgement_gpt5_4.json").unlink()
    assert site.record("7").assessment.worth == "unjudged"
    request = Request(judges=("data",), engine="rules", skip_existing=True)
    append(RunFiles(folder / ".ptb"), record.model_copy(update={"source": "evidence"}))
    found = Doer(site).ended_run("7", "judged")
    subject = judging.subject_of(site, *found, site.content, fresh=False, today=site.content)
    receipt = judging.ask(site, subject, Judge(run="7", request=request), "token", "ada", "")
    assert receipt.words.startswith("nothing to ask") and site.record("7").assessment.worth == "flagged"
