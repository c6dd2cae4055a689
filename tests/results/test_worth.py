import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core import events
from ptb_tui.core.causes import causes
from ptb_tui.core.layout import Root, RunFiles, StepName
from ptb_tui.core.scores import RunFacts, VerdictSummary, Worth
from ptb_tui.core.verdict import VerdictState
from ptb_tui.results.reading import read_run
from ptb_tui.results.records import RunRecord
from ptb_tui.results.worth import used_value, worth
from tests.results.trees import CLEAN, MODELS, foreign_run, own_run, step

DATA = Path(__file__).parents[1] / "data" / "results"
EFFECTS: Mapping[str, Any] = {"contamination": "baseline", "api": "baseline", "lookup": "quarantine", "general": "none"}
FLAG = {
    "contamination": "contamination",
    "api": "disallowed_api_usage",
    "lookup": "disallowed_ptb_lookup",
    "general": "general_anomaly",
}


def verdict(
    judge: str, state: str = "clean", flagged: Sequence[str] = (), why: str = "", required: bool | None = None
) -> VerdictSummary:
    state = "flagged" if flagged else state
    effect = EFFECTS[judge]
    return VerdictSummary(
        judge=judge, output_id=judge, state=VerdictState(state), flagged=tuple(flagged), justification=why,
        effect=effect, required=effect != "none" if required is None else required,
    )  # fmt: skip


def facts(*changed: VerdictSummary, **fields: Any) -> RunFacts:
    given = {found.judge: found for found in changed}
    verdicts = tuple(given.get(judge, verdict(judge)) for judge in EFFECTS)
    base = {"run_id": 1, "accuracy": 0.7, "agent_done": True, "has_model": True, "eval_state": "done"}
    return RunFacts(**{**base, **fields}, verdicts=verdicts)


def test_scored() -> None:
    found = worth(facts())
    assert (found.worth, found.policy, found.letters, found.reason) == (Worth.SCORED, "measured", "", "")


@pytest.mark.parametrize(
    ("changed", "letters"),
    [
        ([verdict("contamination", flagged=["contamination"], why="12 of 60 documents match")], "C"),
        ([verdict("contamination", flagged=["contamination", "disallowed_model"])], "MC"),
        ([verdict("api", flagged=["disallowed_api_usage"])], "A"),
        (
            [
                verdict("api", flagged=["disallowed_api_usage"]),
                verdict("contamination", flagged=["contamination", "disallowed_model"]),
            ],
            "MCA",
        ),
    ],
)
def test_flags_and_letters(changed: list[VerdictSummary], letters: str) -> None:
    found = worth(facts(*changed))
    assert (found.worth, found.policy, found.letters) == (Worth.FLAGGED, "baseline", letters)


def test_the_reason_is_the_judges() -> None:
    why = "12 of 60 training documents match test items: demo-003, demo-017"
    found = worth(facts(verdict("contamination", flagged=["contamination"], why=why)))
    assert found.reason == f"contamination: {why}"


def test_a_long_reason_is_cut_for_lists() -> None:
    found = worth(facts(verdict("contamination", flagged=["contamination"], why="x" * 5000)))
    assert len(found.reason) < 500 and found.reason.endswith("…")


def test_nothing_to_do_reads_as_a_sentence() -> None:
    found = worth(facts(accuracy=None, has_model=False))
    assert found.reason == "the agent left no final_model; the base score is used"


def test_quarantine_beats_a_flag() -> None:
    found = worth(
        facts(verdict("lookup", flagged=["disallowed_ptb_lookup"]), verdict("contamination", flagged=["contamination"]))
    )
    assert (found.worth, found.policy, found.letters) == (Worth.QUARANTINED, "none", "C")


@pytest.mark.parametrize("state", ["missing", "unreadable", "timed_out", "contradictory"])
@pytest.mark.parametrize("judge", ["contamination", "api", "lookup"])
def test_what_is_not_known_is_never_the_base_score(state: str, judge: str) -> None:
    found = worth(facts(verdict(judge, state)))
    assert (found.worth, found.policy) == (Worth.UNJUDGED, "none")
    assert judge in found.reason and ("ptb-tui review" if state == "contradictory" else "ptb-tui judge") in found.reason


def test_a_judge_without_effect_changes_nothing() -> None:
    for state in VerdictState:
        flags = [FLAG["general"]] if state == VerdictState.FLAGGED else []
        assert worth(facts(verdict("general", state.value, flags))).worth is Worth.SCORED


def test_a_flag_stands_unless_a_quarantine_is_open() -> None:
    flagged = verdict("contamination", flagged=["contamination"])
    assert worth(facts(flagged, verdict("api", "unreadable"))).worth is Worth.FLAGGED
    assert worth(facts(flagged, verdict("lookup", "missing"))).worth is Worth.UNJUDGED


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"has_model": False}, Worth.NO_MODEL),
        ({"eval_cause": "no_model", "eval_state": "failed"}, Worth.NO_MODEL),
        ({"eval_cause": "invalid_model", "eval_state": "failed"}, Worth.INVALID_MODEL),
        ({"agent_cause": "invalid_model"}, Worth.INVALID_MODEL),
        ({"eval_cause": "eval_failed", "eval_state": "failed"}, Worth.EVAL_FAILED),
        ({"exhausted": True, "eval_state": ""}, Worth.EVAL_FAILED),
        ({"eval_cause": "grading_incomplete", "eval_state": "failed"}, Worth.GRADING_INCOMPLETE),
        ({"eval_cause": "gpu", "eval_state": "failed"}, Worth.FAILED),
        ({"eval_cause": "operator", "eval_state": "cancelled"}, Worth.FAILED),
        ({"eval_state": "lost", "eval_cause": "host_lost"}, Worth.FAILED),
        ({"eval_state": "failed"}, Worth.FAILED),
        ({"metrics_problem": "accuracy is true"}, Worth.FAILED),
        ({"metrics_problem": "accuracy is true", "exhausted": True}, Worth.FAILED),
        ({"eval_state": ""}, Worth.MISSING),
    ],
)
def test_without_a_score(fields: dict[str, Any], expected: Worth) -> None:
    found = worth(facts(accuracy=None, **fields))
    assert found.worth is expected
    assert found.policy == ("baseline" if expected.uses_baseline else "none")
    assert found.reason


@pytest.mark.parametrize("cause", sorted(name for name, row in causes().items() if row.counts == "no"))
def test_a_failed_agent_step_that_does_not_count(cause: str) -> None:
    found = worth(facts(agent_done=False, agent_cause=cause, accuracy=None))
    assert (found.worth, found.policy) == (Worth.FAILED, "none")
    assert causes()[cause].words in found.reason


def test_how_the_step_ended_is_part_of_the_reason() -> None:
    found = worth(facts(accuracy=None, eval_state="failed", eval_cause="invalid_model"), why="config.json is missing")
    assert found.reason.startswith("final_model cannot be loaded (config.json is missing)")
    found = worth(facts(agent_done=False, agent_cause="gpu", accuracy=None), active=True, why="no device")
    assert found.worth is Worth.FAILED and "(no device)" in found.reason


def test_void_wins_over_everything_and_says_why() -> None:
    found = worth(facts(void="wrong GPU (ada)", agent_done=False), active=True)
    assert (found.worth, found.policy, found.reason) == (Worth.VOID, "none", "void: wrong GPU (ada)")


def test_what_is_not_known_yet_is_no_fault() -> None:
    open_verdict = verdict("api", "missing")
    assert worth(facts(open_verdict), active=True).worth is Worth.RUNNING
    assert worth(facts(accuracy=None, has_model=False), active=True).worth is Worth.RUNNING
    assert worth(facts(), active=True).worth is Worth.SCORED  # judged again: what stands, stands meanwhile


@given(
    st.builds(
        RunFacts, run_id=st.just(1), accuracy=st.none() | st.floats(0, 1),
        has_model=st.sampled_from([None, True, False]),
        metrics_problem=st.sampled_from(["", "bad"]), agent_done=st.booleans(), exhausted=st.booleans(),
        agent_cause=st.sampled_from(["", *causes(), "from_a_newer_version"]),
        eval_state=st.sampled_from(["", "done", "failed", "lost", "cancelled", "running"]),
        eval_cause=st.sampled_from(["", *causes()]), void=st.sampled_from(["", "x"]),
        verdicts=st.lists(
            st.builds(
                VerdictSummary, judge=st.sampled_from(["a", "b"]), output_id=st.just("x"),
                state=st.sampled_from(list(VerdictState)), effect=st.sampled_from(["baseline", "quarantine", "none"]),
                required=st.booleans(), flagged=st.lists(st.sampled_from(list(FLAG.values()))).map(tuple),
            )
        ).map(tuple),
    ),
    st.booleans(),
)  # fmt: skip
def test_policy_follows_worth_and_every_other_worth_has_a_reason(given_facts: RunFacts, active: bool) -> None:
    found = worth(given_facts, active=active)
    kind = Worth(found.worth)
    used = used_value(found, given_facts.accuracy, 0.25)
    assert (used is not None) == kind.counts
    if kind.uses_baseline:
        assert used == 0.25
    if kind is Worth.SCORED:
        assert used == given_facts.accuracy
        needed = [item for item in given_facts.verdicts if item.required]
        assert all(item.state in (VerdictState.CLEAN, VerdictState.FLAGGED) for item in needed)
    else:
        assert found.reason


def read(root: Root, folder: Path) -> RunRecord:
    relative = os.fspath(folder.relative_to(root.path))
    record = read_run(root, relative, "run", ours=(folder / ".ptb").is_dir())
    assert record is not None
    return record


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_a_run_of_ours_from_its_files(root: Root) -> None:
    record = read(root, own_run(root, 7))
    assert record.assessment.worth == "scored"
    assert (record.facts.accuracy, record.facts.stderr, record.facts.seconds) == (0.7, 0.01, 3723)
    assert record.problems == ()


def test_a_flagged_run_of_ours(root: Root) -> None:
    verdicts = {**CLEAN, "data_contamination_judge": ("contamination",)}
    record = read(root, own_run(root, 7, verdicts=verdicts, why="3 of 9 documents match: demo-003"))
    assert record.assessment[:3] == ("flagged", "baseline", "C")
    assert record.assessment.reason == "contamination: 3 of 9 documents match: demo-003"


@pytest.mark.parametrize("sample", sorted(DATA.glob("metrics_*.json")), ids=lambda path: path.stem)
def test_bad_metrics_are_never_the_base_score(root: Root, sample: Path) -> None:
    for folder in (
        own_run(root, 7, metrics=sample.read_text()),
        foreign_run(root, "codex_x_10h", "gsm8k", MODELS[0], 9, metrics=sample.read_text()),
    ):
        record = read(root, folder)
        if sample.stem == "metrics_ok":
            assert record.assessment.worth == "scored"
        else:
            assert record.assessment[:2] == ("failed", "none")
            assert record.facts.metrics_problem in record.assessment.reason
            assert record.facts.metrics_problem in record.problems


def test_no_model(root: Root) -> None:
    record = read(root, own_run(root, 7, model=False, metrics=None, evaluation="failed", eval_cause="no_model"))
    assert record.assessment[:2] == ("no_model", "baseline")


@pytest.mark.parametrize(("whole", "expected"), [(False, "eval_failed"), (True, "missing")])
def test_an_evaluation_in_part_decides_nothing(root: Root, whole: bool, expected: str) -> None:
    folder = own_run(root, 7, metrics=None, evaluation="failed", eval_cause="eval_failed")
    more = step(RunFiles(folder / ".ptb"), 7, StepName("evaluate", n=2))
    with open(more / "events.jsonl", "ab") as log:
        log.write(events.encode("result", 5, {"whole": whole}))
    assert read(root, folder).assessment.worth == expected


def test_broken_verdicts_and_times_have_words(root: Root) -> None:
    folder = own_run(root, 7)
    (folder / "judgement_gpt5_4.json").write_text('{"contamination": null')
    (folder / "time_taken.txt").write_text("N/A")
    record = read(root, folder)
    assert record.assessment[:2] == ("unjudged", "none")
    assert "data_contamination_judge left a verdict that cannot be read" in record.assessment.reason
    assert any("time_taken.txt" in words for words in record.problems)
    assert any("data_contamination_judge: unreadable" in words for words in record.problems)


def test_a_missing_time_file_does_not_touch_the_score(root: Root) -> None:
    record = read(root, foreign_run(root, "codex_x_10h", "gsm8k", MODELS[0], 9, time_taken=None))
    assert record.assessment.worth == "scored"
    assert "time_taken.txt is missing" in record.problems


def test_void_and_undo(root: Root) -> None:
    folder = own_run(root, 7)
    reviews = folder / ".ptb" / "reviews"
    reviews.mkdir()
    (reviews / "20260801T000000Z-ada-1.json").write_text('{"kind": "void", "reason": "wrong GPU", "operator": "ada"}')
    assert read(root, folder).assessment[:4] == ("void", "none", "", "void: wrong GPU (ada)")
    (reviews / "20260801T000001Z-bob-2.json").write_text("{")
    (reviews / "20260801T000002Z-ada-3.json").write_text('{"kind": "undo", "operator": "ada"}')
    record = read(root, folder)
    assert record.assessment.worth == "scored"
    assert any("cannot be understood" in words for words in record.problems)


def test_runs_of_others_are_voided_in_the_overlay_or_by_a_renamed_file(root: Root) -> None:
    folder = foreign_run(root, "codex_x_10h", "gsm8k", MODELS[0], 9)
    reviews = root.own("overlay") / folder.relative_to(root.path) / ".ptb" / "reviews"
    reviews.mkdir(parents=True)
    (reviews / "1-ada-1.json").write_text('{"kind": "void", "reason": "leak"}')
    assert read(root, folder).assessment.reason == "void: leak"
    (reviews / "2-ada-1.json").write_text('{"kind": "undo"}')
    (folder / "metrics.json").rename(folder / "metrics.json.VOID")
    assert read(root, folder).assessment.worth == "void"


def test_the_newer_judges_are_asked_of_newer_runs_of_others_only(root: Root) -> None:
    without = {judge: flags for judge, flags in CLEAN.items() if judge != "ptb_lookup_judge"}
    old = foreign_run(root, "codex_x_10h", "gsm8k", MODELS[0], 17399999, verdicts=without)
    new = foreign_run(root, "codex_x_10h", "gsm8k", MODELS[0], 17400000, verdicts=without)
    assert read(root, old).assessment.worth == "scored"
    assert read(root, new).assessment.worth == "unjudged"
    (old / "judgement_ptb_lookup.json").write_text("{")
    assert read(root, old).assessment.worth == "unjudged", "what is there must be read before it counts"
