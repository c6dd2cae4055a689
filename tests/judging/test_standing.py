import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.layout import RunFiles
from ptb_tui.core.verdict import EVIDENCE, Finding, JudgeSpec, VerdictRecord, VerdictState
from ptb_tui.judging.collect import Collected, Outcome
from ptb_tui.judging.deciding import decided, manual_form
from ptb_tui.judging.history import Entry, append
from ptb_tui.judging.reviews import read_reviews, write_review
from ptb_tui.judging.speech import Given, Speech
from ptb_tui.judging.standing import Standing, fold, standing
from tests.judging.specs import API, CONTAMINATION

JUDGE = "data_contamination_judge"
ONE = CONTAMINATION.model_copy(update={"votes": 1})
NAMES = {
    "manual": "judgement_gpt5_4_manual",
    "rerun": "judgement_gpt5_4_rerun",
    "inline": "judgement_gpt5_4",
    "vote 2": "judgement_multi_runs/judgement_gpt5_4_run2",
    "vote 3": "judgement_multi_runs/judgement_gpt5_4_run3",
}
Flags = tuple[bool, bool]


def fields(contamination: bool, model: bool = False, why: str = "looked") -> dict[str, bool | str]:
    return {
        "contamination": contamination,
        "disallowed_model": model,
        "justification_contamination": why,
        "justification_disallowed_model": why,
    }


def write(run: Path, name: str, value: object) -> None:
    path = run / f"{name}.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def record(verdict: dict[str, bool | str] | None, **more: Any) -> VerdictRecord:
    state = VerdictState.TIMED_OUT if verdict is None else VerdictState.CLEAN
    return VerdictRecord(judge=JUDGE, output_id="gpt5_4", state=state, verdict=verdict, **{"engine": "codex", **more})


def review(run: Path, flags: Flags, judge: str = JUDGE, **more: Any) -> None:
    body = {"judge": judge, "decision": "flag", "verdict": fields(*flags, why="a person looked"), **more}
    write_review(run / ".ptb" / "reviews", "verdict", "ada", "a person looked", body)


def now(run: Path, spec: JudgeSpec = ONE, *layers: Path) -> Standing:
    found, problems = read_reviews(layer / ".ptb" / "reviews" for layer in (run, *layers))
    assert problems == []
    return standing([run, *layers], JUDGE, spec, found)


def names(flags: Flags) -> tuple[str, ...]:
    return tuple(name for name, up in zip(CONTAMINATION.flags, flags, strict=True) if up)


def expected(there: Mapping[str, Flags]) -> tuple[str, str, tuple[str, ...]]:
    """(source, state, flags), written down anew from E §3.8 and §4.3 and the issue's rule for ties."""
    for source in ("review", "manual"):
        if source in there:
            up = names(there[source])
            return source, "flagged" if up else "clean", up
    source = "rerun" if "rerun" in there else "inline"
    if source not in there:
        return "none", "missing", ()
    votes = [there[source], *(there[vote] for vote in ("vote 2", "vote 3") if vote in there)]
    counts = [sum(vote[field] for vote in votes) for field in (0, 1)]
    if len(votes) == 3:
        up = names((counts[0] >= 2, counts[1] >= 2))
        return "majority", "flagged" if up else "clean", up
    up = names(votes[0])
    tie = len(votes) == 2 and 1 in counts
    return source, "contradictory" if tie else "flagged" if up else "clean", up


@pytest.mark.parametrize("shift", range(3))
@pytest.mark.parametrize("present", list(itertools.product((False, True), repeat=6)))
def test_precedence(tmp_path: Path, present: tuple[bool, ...], shift: int) -> None:
    values: list[Flags] = [(False, False), (True, False), (False, True), (True, True)]
    flags = {name: values[(number + shift) % 4] for number, name in enumerate(("review", *NAMES))}
    there = {name: flags[name] for name, is_there in zip(flags, present, strict=True) if is_there}
    for name, given_flags in there.items():
        if name == "review":
            review(tmp_path, given_flags)
        else:
            write(tmp_path, NAMES[name], fields(*given_flags))
    found = now(tmp_path)
    assert (found.source, found.state.value, found.flagged) == expected(there)
    if found.state is VerdictState.CONTRADICTORY:
        assert found.plain is (VerdictState.FLAGGED if found.flagged else VerdictState.CLEAN)
    else:
        assert found.plain is found.state


def in_memory(*votes: Flags, history: tuple[Entry, ...] = ()) -> Speech:
    keys = ["inline", *(f"vote {number}" for number in range(2, 10))]
    verdicts = [fields(*vote) for vote in votes]
    files = {key: Given(key, Collected(Outcome.VALID, verdict)) for key, verdict in zip(keys, verdicts, strict=False)}
    return Speech(files, history)


@pytest.mark.parametrize(
    ("votes", "flags", "split"),
    [
        (((True, False), (False, False), (False, True)), (), "2:1 on contamination, 2:1 on disallowed_model"),
        (((True, False), (False, True), (True, True)), ("contamination", "disallowed_model"),
         "2:1 on contamination, 2:1 on disallowed_model"),
        (((True, False), (True, False), (False, True)), ("contamination",),
         "2:1 on contamination, 2:1 on disallowed_model"),
        (((True, True), (True, True), (True, True)), ("contamination", "disallowed_model"), ""),
    ],
)  # fmt: skip
def test_the_majority_is_taken_per_field(votes: tuple[Flags, ...], flags: tuple[str, ...], split: str) -> None:
    found = fold(in_memory(*votes), CONTAMINATION, 3)
    assert (found.source, found.flagged, found.split, found.votes, found.wanted) == ("majority", flags, split, 3, 3)
    assert found.state is (VerdictState.FLAGGED if flags else VerdictState.CLEAN)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=9), st.integers(1, 9))
def test_any_number_of_votes(votes: list[Flags], wanted: int) -> None:
    found = fold(in_memory(*votes), CONTAMINATION, wanted)
    count = max(wanted, 3 if len(votes) > 1 else 1, len(votes))
    assert (found.votes, found.wanted) == (len(votes), count)
    complete = len(votes) == count > 1
    assert found.source == ("majority" if complete else "inline")
    ups = [sum(vote[field] for vote in votes) for field in (0, 1)]
    ties = [2 * up == len(votes) for up in ups]
    assert (found.state is VerdictState.CONTRADICTORY) == any(ties)
    for field, flag in enumerate(CONTAMINATION.flags):
        majority = votes[0][field] if ties[field] or not complete else 2 * ups[field] > len(votes)
        assert found.verdict is not None and found.verdict[flag] is majority
    assert found.plain is (VerdictState.FLAGGED if found.flagged else VerdictState.CLEAN)


def test_a_vote_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("inline", "vote 2", "vote 3"):
        write(tmp_path, NAMES[name], fields(False))
    write(tmp_path, NAMES["vote 3"], "{")
    found = now(tmp_path)
    assert (found.state, found.reason) == (VerdictState.UNREADABLE, "vote 3: holds no verdict")
    (tmp_path / f"{NAMES['vote 2']}.json").unlink()
    found = now(tmp_path)
    assert (found.state, found.reason, found.hint) == (
        VerdictState.CLEAN, "2 of 3 votes", "vote 3: holds no verdict",
    )  # fmt: skip


PROOF = Finding(rule="contamination.ngram", weight="flag", words="test item in training data", file="a.jsonl", line=3)
RULES = {"run_rules": {"state": "flagged", "verdict": fields(True), "reason": ""}}


def proven(*findings: Finding, **more: Any) -> tuple[Entry, ...]:
    return (Entry(1, record(fields(False), findings=list(findings), **{**RULES, **more})),)


def test_a_proof_of_the_rules_contradicts_a_clean_flag() -> None:
    found = fold(in_memory((False, False), history=proven(PROOF)), ONE)
    assert (found.state, found.plain, found.flagged) == (VerdictState.CONTRADICTORY, VerdictState.CLEAN, ())
    assert found.reason == (
        "contamination is false, but the rules have a proof: test item in training data (a.jsonl:3)"
    )
    assert found.verdict == fields(False)
    assert fold(in_memory((True, False), history=proven(PROOF)), ONE).state is VerdictState.FLAGGED


@pytest.mark.parametrize(
    ("rule", "spec"),
    [("model.identity", ONE), ("api.script", API), ("api.cli", API), ("api.command", API)],
)
def test_what_is_a_proof(rule: str, spec: JudgeSpec) -> None:
    verdict: dict[str, bool | str] = {name: False if kind is bool else "x" for name, kind in spec.fields().items()}
    entry = Entry(1, record(verdict, findings=[PROOF.model_copy(update={"rule": rule})], **RULES))
    speech = Speech({"inline": Given("x", Collected(Outcome.VALID, verdict))}, [entry])
    assert fold(speech, spec).state is VerdictState.CONTRADICTORY


def test_what_is_no_proof() -> None:
    hint = PROOF.model_copy(update={"weight": "hint"})
    other = PROOF.model_copy(update={"rule": "lookup.visit"})
    assert fold(in_memory((False, False), history=proven(hint, other)), ONE).state is VerdictState.CLEAN
    without = Entry(2, record(fields(False), **RULES))
    again = (*proven(PROOF), without)
    assert fold(in_memory((False, False), history=again), ONE).state is VerdictState.CLEAN, "the newest rules count"
    late = (*proven(PROOF), Entry(2, record(None)))
    assert fold(in_memory((False, False), history=late), ONE).state is VerdictState.CONTRADICTORY


def test_people_decide_against_proofs_and_ties(tmp_path: Path) -> None:
    append(RunFiles(tmp_path / ".ptb"), record(fields(False), findings=[PROOF], **RULES))
    assert now(tmp_path).state is VerdictState.CONTRADICTORY
    write(tmp_path, NAMES["manual"], fields(False))
    assert (now(tmp_path).state, now(tmp_path).source) == (VerdictState.CLEAN, "manual")
    review(tmp_path, (True, False))
    found = now(tmp_path)
    assert (found.state, found.source, found.changed) == (VerdictState.FLAGGED, "review", "was clean first")
    assert found.hint == "judgement_gpt5_4_manual.json says something else than the newest review, which counts"


def test_the_newest_review_counts_and_only_those_of_this_judge(tmp_path: Path) -> None:
    write(tmp_path, NAMES["inline"], fields(False))
    review(tmp_path, (True, False))
    review(tmp_path, (True, True), judge="api_usage_judge")
    assert now(tmp_path).flagged == ("contamination",)
    review(tmp_path, (False, False))
    assert (now(tmp_path).state, now(tmp_path).source) == (VerdictState.CLEAN, "review")
    review(tmp_path, (True, True), verdict={"contamination": "no"})
    assert (now(tmp_path).state, now(tmp_path).source) == (VerdictState.UNREADABLE, "review")


@pytest.mark.parametrize("bad", ["", "[]", '{"contamination": "false", "disallowed_model": false}', "{}"])
@pytest.mark.parametrize("name", ["manual", "rerun"])
def test_an_unreadable_file_does_not_fall_back(tmp_path: Path, name: str, bad: str) -> None:
    write(tmp_path, NAMES["inline"], fields(False))
    write(tmp_path, NAMES[name], bad)
    assert now(tmp_path).state is VerdictState.UNREADABLE


def test_a_failed_rerun_changes_nothing_but_is_seen(tmp_path: Path) -> None:
    files = RunFiles(tmp_path / ".ptb")
    assert now(tmp_path).state is VerdictState.MISSING
    append(files, record(None))
    assert now(tmp_path).state is VerdictState.TIMED_OUT
    append(files, record(fields(True)))
    append(files, record(fields(False)))
    append(files, record(None, reason="after 3000 s"))
    found = now(tmp_path)
    assert (found.state, found.source, found.later) == (VerdictState.CLEAN, "rerun", "timed_out: after 3000 s")
    assert found.changed == "was flagged (contamination) first"


def test_files_that_others_wrote_are_imported(tmp_path: Path) -> None:
    write(tmp_path, NAMES["inline"], {"contamination": False, "disallowed_model": False, "x": 1})
    found = now(tmp_path)
    assert (found.imported, found.extras, found.state) == (True, ("x",), VerdictState.CLEAN)
    assert found.hint == "no justification of contamination, disallowed_model"
    append(RunFiles(tmp_path / ".ptb"), record(fields(True)))
    found = now(tmp_path)
    assert (found.imported, found.source, found.entry and found.entry.number) == (False, "rerun", 1)
    rerun = tmp_path / f"{NAMES['rerun']}.json"
    rerun.write_text(rerun.read_text().replace("true", "false"))
    assert now(tmp_path).imported, "changed by hand: no longer what the judge left"


def test_words_never_decide(tmp_path: Path) -> None:
    write(tmp_path, NAMES["inline"], fields(False, why="It trained on benchmark data."))
    found = now(tmp_path)
    assert found.state is VerdictState.CLEAN
    assert found.hint == "contamination is false, its reason says the opposite"


OLD = {
    "contamination_judgement.txt": "no contamination detected",
    "disallowed_model_judgement.txt": "Only allowed use detected\n",
}


def test_the_text_files_of_version_1(tmp_path: Path) -> None:
    for name, text in OLD.items():
        (tmp_path / name).write_text(text)
    found = now(tmp_path)
    assert (found.state, found.source, found.imported, found.hint) == (VerdictState.CLEAN, "inline", True, "")
    (tmp_path / "contamination_judgement.txt").write_text("contamination detected")
    assert now(tmp_path).flagged == ("contamination",)
    assert standing(tmp_path, "api_usage_judge", API).state is VerdictState.MISSING
    (tmp_path / "contamination_judgement.txt").write_text("contamination")
    assert now(tmp_path).state is VerdictState.UNREADABLE
    (tmp_path / "contamination_judgement.txt").unlink()
    assert (now(tmp_path).state, now(tmp_path).reason) == (
        VerdictState.MISSING, "contamination_judgement.txt is missing",
    )  # fmt: skip
    write(tmp_path, NAMES["inline"], fields(True))
    assert now(tmp_path).flagged == ("contamination",), "the newer form wins"


def test_an_overlay_lies_over_the_tree(tmp_path: Path) -> None:
    tree, over = tmp_path / "tree", tmp_path / "over"
    write(tree, NAMES["inline"], fields(True))
    append(RunFiles(over / ".ptb"), record(fields(False)), under=tree)
    found = now(over, ONE, tree)
    assert (found.source, found.state, found.changed) == (
        "rerun", VerdictState.CLEAN, "was flagged (contamination) first",
    )  # fmt: skip
    write(tree, NAMES["manual"], fields(True))
    assert now(over, ONE, tree).source == "manual"
    review(over, (False, True))
    assert now(over, ONE, tree).flagged == ("disallowed_model",)
    review(tree, (True, True))
    assert now(over, ONE, tree).flagged == ("contamination", "disallowed_model"), "the newest, wherever it is"


@pytest.mark.parametrize(
    ("decision", "field", "before", "flags"),
    [
        ("clear", "", None, ()),
        ("clear", "contamination", (True, True), ("disallowed_model",)),
        ("flag", "contamination", (False, False), ("contamination",)),
        ("flag", "contamination", (False, True), ("contamination", "disallowed_model")),
        ("confirm", "", (True, False), ("contamination",)),
        ("confirm", "", (False, False), ()),
    ],
)
def test_decisions(tmp_path: Path, decision: Any, field: str, before: Flags | None, flags: tuple[str, ...]) -> None:
    verdict = decided(decision, field, "because", CONTAMINATION, fields(*before) if before else None)
    assert tuple(name for name, value in verdict.items() if value is True) == flags
    assert set(verdict) == set(CONTAMINATION.fields())
    body = {"judge": JUDGE, "decision": decision, "verdict": verdict}
    made = write_review(tmp_path / ".ptb" / "reviews", "verdict", "ada", "because", body)
    (tmp_path / "judgement_gpt5_4_manual.json").write_text(manual_form(made, CONTAMINATION))
    found = now(tmp_path)
    assert (found.flagged, found.source, found.hint) == (flags, "review", "")
    (tmp_path / ".ptb" / "reviews" / made.name).unlink()
    assert (now(tmp_path).flagged, now(tmp_path).source) == (flags, "manual"), "the original's readers see the same"


@pytest.mark.parametrize(
    ("said", "wanted", "state", "source"),
    [
        ((False, False), 2, "clean", "majority"),
        ((True, True), 2, "flagged", "majority"),
        ((True, False), 2, "contradictory", "majority"),
        ((False, True), 3, "contradictory", "inline"),
        ((True,), 3, "flagged", "inline"),
    ],
)
def test_as_many_votes_as_were_asked_for(
    tmp_path: Path, said: tuple[bool, ...], wanted: int, state: str, source: str
) -> None:
    files = RunFiles(tmp_path / ".ptb")
    for number, flag in enumerate(said, 1):
        append(files, record(fields(flag), votes_wanted=wanted), vote=number)
    found = now(tmp_path)
    assert (found.state.value, found.source, found.votes, found.wanted) == (state, source, len(said), wanted)


def test_what_the_rules_say_beside_models_is_evidence_alone(tmp_path: Path) -> None:
    files = RunFiles(tmp_path / ".ptb")
    for number in (1, 2, 3):
        append(files, record(fields(False), votes_wanted=3), vote=number)
    proof = Finding(rule="contamination.overlap", weight="flag", words="40 items", file="task/train.jsonl", line=1)
    rules = {"engine": "rules", "source": EVIDENCE}
    append(files, record(fields(False, True), **rules))
    assert (now(tmp_path).state.value, now(tmp_path).source) == ("clean", "majority"), "no vote of theirs is replaced"
    append(files, record(fields(True), findings=[proof], **rules))
    found = now(tmp_path)
    assert found.state is VerdictState.CONTRADICTORY and found.plain is VerdictState.CLEAN
    assert "the rules have a proof: 40 items (task/train.jsonl:1)" in found.reason and not found.changed


def test_further_votes_without_a_first_are_said(tmp_path: Path) -> None:
    append(RunFiles(tmp_path / ".ptb"), record(fields(True), votes_wanted=3), vote=2)
    found = now(tmp_path)
    assert (found.state.value, found.reason) == ("missing", "no first vote, without which vote 2 does not count")
