import itertools
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.layout import RunFiles
from ptb_tui.core.verdict import VerdictRecord, VerdictState
from ptb_tui.judging.history import append, publish, read_history, standing
from tests.judging.specs import API, CONTAMINATION

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
    now = standing(files, JUDGE, CONTAMINATION)
    assert (now.source, now.flagged, now.changed, now.later) == ("rerun", ("disallowed_model",), True, "")


def test_a_failed_rerun_changes_nothing_but_is_seen(files: RunFiles) -> None:
    append(files, record(fields(True)))
    append(files, record(fields(False)))
    append(files, record(None, reason="after 3000 s"))
    now = standing(files, JUDGE, CONTAMINATION)
    assert (now.state, now.source, now.later) == (VerdictState.CLEAN, "rerun", "timed_out: after 3000 s")


def test_without_any_verdict(files: RunFiles) -> None:
    assert standing(files, JUDGE, CONTAMINATION).state is VerdictState.MISSING
    append(files, record(None))
    assert standing(files, JUDGE, CONTAMINATION).state is VerdictState.TIMED_OUT
    assert list(files.run_dir.glob("judgement*")) == []
    append(files, record(fields(False)))
    assert standing(files, JUDGE, CONTAMINATION).source == "inline"


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


def test_three_votes(files: RunFiles) -> None:
    append(files, record(fields(True, False)))
    assert standing(files, JUDGE, CONTAMINATION).reason == "1 of 3 votes"
    append(files, record(fields(False, True)), vote=2)
    append(files, record(fields(True, True)), vote=3)
    now = standing(files, JUDGE, CONTAMINATION)
    assert (now.source, now.flagged, now.votes) == ("majority", ("contamination", "disallowed_model"), 3)
    assert now.reason == "contamination 2:1, disallowed_model 2:1"
    assert public(files, "judgement_multi_runs/judgement_gpt5_4_run2")["_meta"]["slot"] == 2


NAMES = {
    "manual": "judgement_gpt5_4_manual",
    "rerun": "judgement_gpt5_4_rerun",
    "inline": "judgement_gpt5_4",
    "run2": "judgement_multi_runs/judgement_gpt5_4_run2",
    "run3": "judgement_multi_runs/judgement_gpt5_4_run3",
}


@pytest.mark.parametrize("present", list(itertools.product((False, True), repeat=5)))
def test_precedence(files: RunFiles, present: tuple[bool, ...]) -> None:
    there = dict(zip(NAMES, present, strict=True))
    values = ((False, False), (True, False), (False, True), (True, True), (False, False))
    flags = dict(zip(NAMES, values, strict=True))
    for key, exists in there.items():
        if exists:
            write(files, NAMES[key], {"contamination": flags[key][0], "disallowed_model": flags[key][1]})
    now = standing(files, JUDGE, CONTAMINATION)
    first = "rerun" if there["rerun"] else "inline" if there["inline"] else "none"
    if there["manual"]:
        expected: tuple[str, tuple[str, ...]] = "manual", ()
    elif first == "none":
        expected = "none", ()
    elif there["run2"] and there["run3"]:
        expected = "majority", ("contamination",) if first == "rerun" else ("disallowed_model",)
    else:
        expected = first, ("contamination",) if first == "rerun" else ("disallowed_model",)
    assert (now.source, now.flagged) == expected
    assert (now.state is VerdictState.MISSING) == (expected[0] == "none")


@pytest.mark.parametrize("bad", ["", "[]", '{"contamination": "false", "disallowed_model": false}', "{}"])
@pytest.mark.parametrize("name", ["judgement_gpt5_4_manual", "judgement_gpt5_4_rerun"])
def test_an_unreadable_file_does_not_fall_back(files: RunFiles, name: str, bad: str) -> None:
    write(files, "judgement_gpt5_4", {"contamination": False, "disallowed_model": False})
    write(files, name, bad)
    assert standing(files, JUDGE, CONTAMINATION).state is VerdictState.UNREADABLE


def test_damaged_records_are_not_left_out(files: RunFiles) -> None:
    append(files, record(fields(True)))
    (files.verdicts / JUDGE / "002.json").write_text('{"v":1')
    (files.verdicts / JUDGE / "notes.txt").write_text("x")
    assert [entry.record.state for entry in read_history(files, JUDGE)] == [VerdictState.CLEAN, VerdictState.UNREADABLE]
    assert append(files, record(fields(False))).number == 3
    assert standing(files, "api_usage_judge", API).state is VerdictState.MISSING
