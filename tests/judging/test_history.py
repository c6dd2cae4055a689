import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.layout import RunFiles
from ptb_tui.core.verdict import EVIDENCE, VerdictRecord, VerdictState
from ptb_tui.judging.history import append, publish, read_history

JUDGE = "data_contamination_judge"


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    found = RunFiles(tmp_path / "run" / ".ptb")
    found.ptb.mkdir(parents=True)
    return found


def fields(contamination: bool, model: bool = False) -> dict[str, bool | str]:
    return {
        "contamination": contamination,
        "disallowed_model": model,
        "justification_contamination": f"c {contamination}",
        "justification_disallowed_model": f"m {model}",
    }


def record(verdict: dict[str, bool | str] | None, **more: Any) -> VerdictRecord:
    state = VerdictState.TIMED_OUT if verdict is None else VerdictState.CLEAN
    return VerdictRecord(judge=JUDGE, output_id="gpt5_4", state=state, verdict=verdict, engine="rules", **more)


def public(files: RunFiles, name: str = "judgement_gpt5_4") -> Any:
    return json.loads((files.run_dir / f"{name}.json").read_text())


def write(files: RunFiles, name: str, value: object) -> None:
    path = files.run_dir / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def test_first_stays_and_later_ones_are_reruns(files: RunFiles) -> None:
    for verdict in (fields(True), None, fields(False), fields(False, True)):
        append(files, record(verdict))
    assert [entry.number for entry in read_history(files, JUDGE)] == [1, 2, 3, 4]
    assert public(files)["contamination"] is True
    assert public(files, "judgement_gpt5_4_rerun")["disallowed_model"] is True
    assert public(files)["_meta"]["judge_model"] == "rules"


def test_an_answer_without_verdict_has_no_public_file(files: RunFiles) -> None:
    append(files, record(None))
    assert list(files.run_dir.glob("judgement*")) == []
    append(files, record(fields(False)))
    assert public(files)["_meta"]["record"] == 2


def test_files_of_the_original_are_kept(files: RunFiles) -> None:
    write(files, "judgement_gpt5_4", {"contamination": True, "disallowed_model": False})
    write(files, "judgement_gpt5_4_rerun", {"contamination": False, "disallowed_model": True})
    append(files, record(fields(False)))
    assert public(files) == {"contamination": True, "disallowed_model": False}
    assert public(files, "judgement_gpt5_4_rerun")["disallowed_model"] is False
    kept = [entry.record for entry in read_history(files, JUDGE) if entry.record.source != "judge"]
    assert [json.loads(found.reason)["disallowed_model"] for found in kept] == [True]
    append(files, record(fields(True)))
    assert len([entry for entry in read_history(files, JUDGE) if entry.record.source != "judge"]) == 1


def test_publishing_again_changes_nothing_and_repairs(files: RunFiles) -> None:
    append(files, record(fields(True)))
    append(files, record(fields(False)))
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in files.run_dir.glob("judgement*")}
    publish(files, JUDGE, "gpt5_4")
    assert before == {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in files.run_dir.glob("j*")}
    (files.run_dir / "judgement_gpt5_4_rerun.json").unlink()
    publish(files, JUDGE, "gpt5_4")
    assert public(files, "judgement_gpt5_4_rerun")["contamination"] is False


def test_many_writers(files: RunFiles) -> None:
    threads = [threading.Thread(target=append, args=(files, record(fields(n % 2 == 0)))) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    entries = read_history(files, JUDGE)
    assert [entry.number for entry in entries] == list(range(1, 13))
    last = entries[-1].record.verdict
    assert last is not None
    assert public(files, "judgement_gpt5_4_rerun")["contamination"] == last["contamination"]
    assert list(files.run_dir.rglob("*.tmp")) == []


def test_votes_have_files_of_their_own(files: RunFiles) -> None:
    for vote in (1, 2, 3, 2):
        append(files, record(fields(vote == 2, vote == 3)), vote=vote)
    assert (
        public(files, "judgement_multi_runs/judgement_gpt5_4_run2")["_meta"] | {"record": 4, "slot": 2}
        == public(files, "judgement_multi_runs/judgement_gpt5_4_run2")["_meta"]
    )
    assert not (files.run_dir / "judgement_gpt5_4_rerun.json").exists()


@pytest.mark.parametrize("there", ["judgement_gpt5_4.json", "contamination_judgement.txt", ""])
def test_over_a_tree_that_is_only_read(files: RunFiles, tmp_path: Path, there: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    if there:
        (tree / there).write_text('{"contamination": true, "disallowed_model": false}')
    before = sorted(tree.iterdir())
    append(files, record(fields(False)), under=tree)
    append(files, record(fields(False, True)), under=tree)
    names = {path.name for path in files.run_dir.glob("judgement*")}
    assert names == {"judgement_gpt5_4_rerun.json"} | (set() if there else {"judgement_gpt5_4.json"})
    assert public(files, "judgement_gpt5_4_rerun")["disallowed_model"] is True
    assert sorted(tree.iterdir()) == before


def test_damaged_records_are_not_left_out(files: RunFiles) -> None:
    append(files, record(fields(True)))
    (files.verdicts / JUDGE / "002.json").write_text('{"v":1')
    (files.verdicts / JUDGE / "notes.txt").write_text("x")
    assert [entry.record.state for entry in read_history(files, JUDGE)] == [VerdictState.CLEAN, VerdictState.UNREADABLE]
    assert append(files, record(fields(False))).number == 3


def test_a_rerun_of_others_is_followed_where_it_is_all_there_is(files: RunFiles, tmp_path: Path) -> None:
    tree = tmp_path / "theirs"
    tree.mkdir()
    (tree / "judgement_gpt5_4_rerun.json").write_text(json.dumps(fields(False)))
    append(files, record(fields(True)), under=tree)
    assert public(files, "judgement_gpt5_4_rerun")["contamination"] is True, "else theirs would go before"
    write(files, "judgement_api_rerun", fields(False))
    append(files, record(fields(True)).model_copy(update={"output_id": "api"}))
    assert public(files, "judgement_api_rerun")["contamination"] is True
    assert not (files.run_dir / "judgement_api.json").exists()


def test_what_is_evidence_is_kept_and_not_published(files: RunFiles) -> None:
    append(files, record(fields(False)))
    append(files, record(fields(True), source=EVIDENCE))
    assert len(read_history(files, JUDGE)) == 2 and len(list(files.run_dir.glob("judgement*"))) == 1
