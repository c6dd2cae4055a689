"""Answers of judges about cases, as they are kept."""

from __future__ import annotations

from pathlib import Path

from ptb_tui.core.layout import Root
from ptb_tui.core.verdict import VerdictRecord, VerdictState
from ptb_tui.judging.calibration import Answer, Subject, folder_of, keep, read, read_all

SUBJECT = Subject(judge="general_judge", engine="rules", prompt_hash="words")


def answer(case: str, state: VerdictState = VerdictState.CLEAN) -> Answer:
    record = VerdictRecord(judge="general_judge", output_id="general", state=state, engine="rules")
    return Answer(case=case, digest="d", expect={"general_anomaly": False}, record=record)


def test_answers_are_kept_by_words_and_model(tmp_path: Path) -> None:
    root = Root(tmp_path)
    keep(root, SUBJECT, answer("a", VerdictState.TIMED_OUT))
    keep(root, SUBJECT, answer("a"))
    keep(root, SUBJECT.model_copy(update={"prompt_hash": "others"}), answer("b"))
    kept = read_all(root)
    assert sorted(one.case for found in kept for one in found.answers) == ["a", "b"]
    assert {found.subject.prompt_hash for found in kept} == {"words", "others"}
    assert read_all(root, ["api_usage_judge"]) == []
    assert answer("a").said and not answer("a", VerdictState.TIMED_OUT).said


def test_what_is_damaged_is_passed_over(tmp_path: Path) -> None:
    root, folder = Root(tmp_path), folder_of(Root(tmp_path), SUBJECT)
    assert read(folder) is None
    keep(root, SUBJECT, answer("a"))
    (folder / "answers" / "b-1.json").write_text('{"case": 1')
    (folder / "answers" / "c-1.json").symlink_to("/etc/passwd")
    (folder.parent / "stray").mkdir()
    assert [one.case for found in read_all(root) for one in found.answers] == ["a"]
    (folder / "subject.json").write_text("[]")
    assert read_all(root) == []
