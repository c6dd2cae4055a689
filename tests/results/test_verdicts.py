import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.scores import VerdictSummary
from ptb_tui.core.verdict import Finding, VerdictRecord, VerdictState
from ptb_tui.judging.history import append
from ptb_tui.judging.reviews import write_review
from ptb_tui.judging.speech import Layer
from ptb_tui.results.cells import assess
from ptb_tui.results.overlay import Overlay
from ptb_tui.results.reading import read_run
from ptb_tui.results.records import RunRecord
from ptb_tui.results.store import RunStore
from ptb_tui.results.verdicts import JudgePolicy, as_upstream, decisions, original_policies, read_verdicts, under
from tests.results.trees import CLEAN, MODELS, foreign_run, own_run, settle, verdict_text

METHOD = "codex_gpt-5.1_10h"
NEW = 17_500_000  # the original's runs have a lookup judge
DATA, API, LOOKUP = "data_contamination_judge", "api_usage_judge", "ptb_lookup_judge"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "results")


def read(root: Root, folder: Path, overlay: Overlay | None = None) -> RunRecord:
    relative = os.fspath(folder.relative_to(root.path))
    record = read_run(root, relative, "run", ours=(folder / ".ptb").is_dir(), overlay=overlay)
    assert record is not None
    return record


def of(record: RunRecord, judge: str = DATA) -> VerdictSummary:
    return next(verdict for verdict in record.facts.verdicts if verdict.judge == judge)


def files(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.json").write_text(text)
    return folder


# Acceptance test 3 of E §9: each way in which a cell has no clean score has its own status.
STATUS: dict[str, tuple[dict[str, Any], dict[str, str], tuple[str, str, str]]] = {
    "clean": ({}, {}, ("scored", "measured", "")),
    "M": ({DATA: ["disallowed_model"]}, {}, ("flagged", "baseline", "M")),
    "C": ({DATA: ["contamination"]}, {}, ("flagged", "baseline", "C")),
    "A": ({API: ["disallowed_api_usage"]}, {}, ("flagged", "baseline", "A")),
    "MC": ({DATA: ["contamination", "disallowed_model"]}, {}, ("flagged", "baseline", "MC")),
    "MA": ({DATA: ["disallowed_model"], API: ["disallowed_api_usage"]}, {}, ("flagged", "baseline", "MA")),
    "CA": ({DATA: ["contamination"], API: ["disallowed_api_usage"]}, {}, ("flagged", "baseline", "CA")),
    "MCA": (
        {DATA: ["contamination", "disallowed_model"], API: ["disallowed_api_usage"]}, {},
        ("flagged", "baseline", "MCA"),
    ),
    "lookup": ({LOOKUP: ["disallowed_ptb_lookup"]}, {}, ("quarantined", "none", "")),
    "lookup and C": (
        {LOOKUP: ["disallowed_ptb_lookup"], DATA: ["contamination"]}, {}, ("quarantined", "none", "C"),
    ),
    "missing": ({DATA: None}, {}, ("unjudged", "none", "")),
    "string bool": (
        {}, {"judgement_gpt5_4": '{"contamination": "false", "disallowed_model": false}'}, ("unjudged", "none", ""),
    ),
    "list": ({}, {"judgement_api": "[]"}, ("unjudged", "none", "")),
    "torn": ({}, {"judgement_ptb_lookup": '{"disallowed_ptb_lookup": fal'}, ("unjudged", "none", "")),
    "two objects": (
        {},
        {"judgement_api": '{"disallowed_api_usage": false}\n{"disallowed_api_usage": true}'},
        ("unjudged", "none", ""),
    ),
    "a file of another judge": ({}, {"judgement_extra": "{"}, ("scored", "measured", "")),
    "general flag": ({"general_judge": ["general_anomaly"]}, {}, ("scored", "measured", "")),
}  # fmt: skip


@pytest.mark.parametrize("name", STATUS)
@pytest.mark.parametrize("ours", [False, True])
def test_acceptance_3(root: Root, name: str, ours: bool) -> None:
    changed, texts, expected = STATUS[name]
    verdicts = {judge: flags for judge, flags in {**CLEAN, **changed}.items() if flags is not None}
    make = (
        own_run(root, NEW, verdicts=verdicts)
        if ours
        else foreign_run(root, METHOD, "gsm8k", MODELS[0], NEW, verdicts=verdicts)
    )
    record = read(root, files(make, **texts))
    assert record.assessment[:3] == expected
    assert bool(record.assessment.reason) == (expected[0] != "scored")


def test_states_stay_apart(root: Root) -> None:
    """Acceptance 3, too: the reasons of cells without a value say which state each judge is in."""
    reasons = set()
    for number, (name, text) in enumerate(
        [
            ("judgement_gpt5_4", ""), ("judgement_gpt5_4", "[]"), ("judgement_gpt5_4_manual", "{}"),
            ("judgement_gpt5_4", verdict_text(DATA) + verdict_text(DATA, ["contamination"])),
        ]
    ):  # fmt: skip
        folder = files(foreign_run(root, METHOD, "gsm8k", MODELS[0], NEW + number), **{name: text})
        reasons.add(read(root, folder).assessment.reason)
    assert len(reasons) == 4


PROOF = Finding(rule="contamination.ngram", weight="flag", words="test item in training data", file="a.jsonl", line=3)


def contradicted(root: Root, run_id: int = 7) -> Path:
    folder = own_run(root, run_id, verdicts={judge: () for judge in CLEAN if judge != DATA})
    verdict = json.loads(verdict_text(DATA))
    record = VerdictRecord.model_validate(
        {
            "judge": DATA, "output_id": "gpt5_4", "state": "clean", "verdict": verdict, "findings": [PROOF],
            "engine": "codex", "model": "m-1", "cost_usd": 0.25, "prompt_hash": "p" * 64,
            "run_rules": {"verdict": {"contamination": True}},
        }
    )  # fmt: skip
    append(RunFiles(folder / ".ptb"), record)
    return folder


def test_a_contradiction_has_no_value_but_under_upstream(root: Root) -> None:
    record = read(root, contradicted(root))
    assert record.assessment[:2] == ("unjudged", "none")
    assert "ptb-tui review" in record.assessment.reason and "a.jsonl:3" in record.assessment.reason
    assert assess(record, None, "upstream")[:2] == ("scored", "measured")
    found = of(record)
    assert (found.state, found.plain) == (VerdictState.CONTRADICTORY, VerdictState.CLEAN)
    assert (found.engine, found.model, found.cost_usd, found.imported) == ("codex", "m-1", 0.25, False)
    assert [verdict.state for verdict in as_upstream(record.facts.verdicts)] == [VerdictState.CLEAN] * 4
    assert any("contradictory" in words for words in record.problems)


def test_two_votes_that_tie(root: Root) -> None:
    folder = foreign_run(root, METHOD, "gsm8k", MODELS[0], NEW)
    (folder / "judgement_multi_runs").mkdir()
    vote = folder / "judgement_multi_runs" / "judgement_gpt5_4_run2.json"
    vote.write_text(verdict_text(DATA, ["contamination"]))
    record = read(root, folder)
    assert record.assessment[:2] == ("unjudged", "none")
    assert assess(record, None, "upstream")[:2] == ("scored", "measured"), "the first vote counts there"
    vote.with_name("judgement_gpt5_4_run3.json").write_text(verdict_text(DATA, ["contamination"]))
    record = read(root, folder)
    assert record.assessment[:3] == ("flagged", "baseline", "C")
    found = of(record)
    assert (found.split, found.votes, found.wanted) == ("2:1 on contamination", 3, 3)
    assert sorted(found.opinions) == [False, True, True]


def test_the_protocol_of_a_run_says_how_many_votes_and_what_a_flag_does(root: Root) -> None:
    from tests.results.trees import JUDGES

    judges = tuple(plan.model_copy(update={"votes": 2, "effect": "quarantine"}) for plan in JUDGES[:1]) + JUDGES[1:]
    record = read(root, own_run(root, 7, judges=judges, verdicts={**CLEAN, DATA: ("contamination",)}))
    assert (record.assessment.worth, of(record).wanted, of(record).votes) == ("quarantined", 2, 1)


def policy(judge: str, effect: Any, required: bool = False) -> JudgePolicy:
    return JudgePolicy(judge, effect, required)


def test_another_protocols_judges() -> None:
    flagged = VerdictSummary(judge=DATA, output_id="gpt5_4", state=VerdictState.FLAGGED, flagged=("contamination",))
    found = under([flagged], [policy(DATA, "none"), policy(LOOKUP, "quarantine")])
    assert [(verdict.judge, verdict.effect, verdict.required) for verdict in found] == [
        (DATA, "none", False), (LOOKUP, "quarantine", True),
    ]  # fmt: skip
    assert found[1].state is VerdictState.MISSING


def test_an_old_run_of_others_need_not_have_a_lookup_verdict_but_may(root: Root) -> None:
    old = 17_399_999
    without = {judge: flags for judge, flags in CLEAN.items() if judge != LOOKUP}
    folder = foreign_run(root, METHOD, "gsm8k", MODELS[0], old, verdicts=without)
    record = read(root, folder)
    assert (record.assessment.worth, of(record, LOOKUP).required) == ("scored", False)
    (folder / "judgement_ptb_lookup_rerun.json").write_text(verdict_text(LOOKUP, ["disallowed_ptb_lookup"]))
    assert read(root, folder).assessment.worth == "quarantined"
    assert [policy.needed for policy in original_policies(old)] == [True, True, False, False]
    assert [policy.needed for policy in original_policies(17_400_000)] == [True, True, True, False]


def test_version_1_text_files(root: Root) -> None:
    folder = foreign_run(root, METHOD, "gsm8k", MODELS[0], 5, verdicts={})
    (folder / "contamination_judgement.txt").write_text("contamination detected\n")
    (folder / "disallowed_model_judgement.txt").write_text("only allowed use detected\n")
    found = of(read(root, folder))
    assert (found.state, found.flagged, found.imported) == (VerdictState.FLAGGED, ("contamination",), True)


def test_hostile_words_are_made_safe(root: Root) -> None:
    folder = files(
        foreign_run(root, METHOD, "gsm8k", MODELS[0], NEW),
        judgement_gpt5_4=json.dumps(
            {
                "contamination": True, "disallowed_model": False, 
                "justification_contamination": "\x1b[31mred\u202e\n\n[b]",
                "justification_disallowed_model": "x" * 90_000, "\x1b]0;title\x07key": 1,
                "_meta": {"judge_model": "\x1b[2Jmodel\n"},
            }
        ),
    )  # fmt: skip
    found = of(read(root, folder))
    assert all(text.isprintable() for text in (found.justification, found.model, *found.extras, found.hint))
    assert found.extras == ("key",)


def review(folder: Path, kind: str, **body: Any) -> None:
    write_review(folder / ".ptb" / "reviews", kind, "ada", "because", body)


def folded(folder: Path, *more: Path) -> Sequence[Any]:
    found = decisions([Layer.of(folder), *map(Layer.of, more)])
    return bool(found.void), bool(found.pin), len(found.verdicts)


def test_decisions_of_one_kind_leave_the_others_alone(tmp_path: Path) -> None:
    review(tmp_path, "void")
    review(tmp_path, "pin")
    review(tmp_path, "verdict", judge=DATA)
    assert folded(tmp_path) == (True, True, 1)
    review(tmp_path, "undo", what="void")
    assert folded(tmp_path) == (False, True, 1)
    review(tmp_path, "void")
    review(tmp_path, "undo")
    review(tmp_path, "from a newer version")
    assert folded(tmp_path) == (False, False, 1)
    review(tmp_path / "over", "void")
    assert folded(tmp_path / "over", tmp_path) == (True, False, 1)


@pytest.mark.parametrize("where", ["own", "beside"])
def test_the_overlay_is_read_and_its_changes_are_seen(root: Root, tmp_path: Path, where: str) -> None:
    tree = root if where == "own" else Root(tmp_path / "elsewhere")
    flagged = {**CLEAN, DATA: ("contamination",)}
    folder = foreign_run(tree, METHOD, "gsm8k", MODELS[0], NEW, verdicts=flagged, started="2026-08-01T10:00:00Z")
    settle(tree.path)
    overlay = Overlay(root)
    store = RunStore(tree, overlay=overlay)
    assert store.scan().runs[0].assessment.worth == "flagged"
    over = overlay.files(f"{METHOD}/{folder.name}")
    verdict = json.loads(verdict_text(DATA))
    append(
        over, VerdictRecord(judge=DATA, output_id="gpt5_4", state=VerdictState.CLEAN, verdict=verdict, engine="rules"),
        under=folder,
    )  # fmt: skip
    record = store.scan().runs[0]
    assert (record.assessment.worth, of(record).source, of(record).engine) == ("scored", "rerun", "rules")
    assert of(record).changed == "was flagged (contamination) first"
    settle(tmp_path)
    assert store.scan().runs[0] == record
    flags = {**verdict, "disallowed_model": True}
    write_review(over.reviews, "verdict", "ada", "twin", {"judge": DATA, "decision": "flag", "verdict": flags})
    record = store.scan().runs[0]
    assert record.assessment[:3] == ("flagged", "baseline", "M")
    assert record == RunStore(tree, use_cache=False, overlay=overlay).scan().runs[0]
    found = of(record).review
    assert found is not None and (found.operator, found.reason, found.decision) == ("ada", "twin", "flag")


def test_our_own_run_has_no_overlay(root: Root) -> None:
    folder = own_run(root, 7)
    over = Overlay(root).files(os.fspath(folder.relative_to(root.path)))
    write_review(over.reviews, "void", "ada", "x", {})
    assert read(root, folder).assessment.worth == "scored"
    assert read(root, folder, Overlay(Root(root.path.parent / "other"))).assessment.worth == "scored"


def test_an_unknown_judge_is_read_from_its_own_records(root: Root) -> None:
    from tests.results.trees import JUDGES

    plan = JUDGES[0].model_copy(update={"judge": "style_judge", "effect": "baseline"})
    folder = own_run(root, 7, judges=(plan,))
    fields: dict[str, bool | str] = {"ugly": True, "justification_ugly": "so it is"}
    append(
        RunFiles(folder / ".ptb"),
        VerdictRecord(
            judge="style_judge", output_id="style", state=VerdictState.FLAGGED, verdict=fields, engine="codex"
        ),
    )
    found = read_verdicts([Layer.of(folder)], [JudgePolicy("style_judge", "baseline")])[0]
    assert (found.flagged, found.source, found.output_id) == (("ugly",), "inline", "style")
