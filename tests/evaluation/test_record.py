"""The record of an evaluation: what a driver that comes after another finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.evaluation.final import Attempt, AttemptResult, Outcome
from ptb_tui.evaluation.record import NAME, Record, new_output, open_record

PLAN = {"task": "t", "seeds": [1, 2], "model": "m"}
GOOD = Attempt(1, 0, 1, None, AttemptResult({"accuracy": 0.5}, 3.0))
BAD = Attempt(2, 0, 1, None, AttemptResult(None, 3.0, "eval_failed", "w", "k", kind="error"))


def running(_: str) -> bool:
    return False


def over(_: str) -> bool:
    return True


def test_a_new_evaluation_never_uses_a_folder_that_holds_anything(tmp_path: Path) -> None:
    (tmp_path / "evaluation").write_text("a file in the way")
    (tmp_path / "evaluation_2").symlink_to("/nowhere")
    (tmp_path / "evaluation_3").mkdir()
    (tmp_path / "evaluation_3" / "metrics_seed1.json").write_text("{}")
    assert new_output(tmp_path).name == "evaluation_4"
    assert new_output(tmp_path).name == "evaluation_4"  # nothing was written there
    (tmp_path / "evaluation_4" / "x").write_text("")
    assert new_output(tmp_path).name == "evaluation_5"


def test_the_same_step_goes_on_with_its_own(tmp_path: Path) -> None:
    first = open_record(tmp_path, PLAN, "002-evaluate-1", running)
    first.note(GOOD)
    first.note(BAD)
    again = open_record(tmp_path, PLAN, "002-evaluate-1", running)
    assert again.folder == first.folder and again.resumed == 1
    assert again.known(Attempt(1, 0, 1, None)) == GOOD.result and again.known(Attempt(2, 0, 1, None)) == BAD.result
    assert again.known(Attempt(2, 0, 2, None)) is None and again.known(Attempt(1, 0, 1, None, ease=1)) is None
    again.conclude(Outcome((1, 2)))
    assert open_record(tmp_path, PLAN, "002-evaluate-1", running).folder == first.folder


def test_another_step_goes_on_only_with_what_nobody_works_on(tmp_path: Path) -> None:
    first = open_record(tmp_path, PLAN, "002-evaluate-1", running)
    first.note(GOOD)
    assert open_record(tmp_path, PLAN, "003-evaluate-2", running).folder.name == "evaluation_2"
    assert open_record(tmp_path, {**PLAN, "seeds": [3]}, "004-evaluate-3", over).folder.name == "evaluation_3"
    assert open_record(tmp_path, PLAN, "005-evaluate-4", over).folder.name == "evaluation_2"  # the newest
    assert open_record(tmp_path, PLAN, "005-evaluate-4", over, again=False).folder.name == "evaluation_4"


def test_a_dead_driver_is_followed(tmp_path: Path) -> None:
    first = open_record(tmp_path, PLAN, "002-evaluate-1", running)
    raw = json.loads((first.folder / NAME).read_text())
    raw["owner"]["process"]["start"] -= 1  # what had this pid is gone
    (first.folder / NAME).write_text(json.dumps(raw))
    assert open_record(tmp_path, PLAN, "003-evaluate-2", running).folder == first.folder


@pytest.mark.parametrize("cause", ["grading_incomplete", "step_limit"])
def test_what_stopped_for_the_grader_or_the_time_is_gone_on_with(tmp_path: Path, cause: str) -> None:
    first = open_record(tmp_path, PLAN, "002-evaluate-1", running)
    first.note(GOOD)
    first.note(Attempt(2, 0, 1, None, AttemptResult(None, 3.0, cause, "w", "k")))
    first.conclude(Outcome((1, 2), cause=cause))
    again = open_record(tmp_path, PLAN, "003-evaluate-2", over)
    assert again.folder == first.folder and again.known(Attempt(1, 0, 1, None)) is not None
    assert again.known(Attempt(2, 0, 1, None)) is None


@pytest.mark.parametrize("cause", ["", "eval_failed"])
def test_a_result_is_left_alone(tmp_path: Path, cause: str) -> None:
    first = open_record(tmp_path, PLAN, "002-evaluate-1", running)
    first.note(GOOD)
    first.conclude(Outcome((1, 2), cause=cause))
    before = (first.folder / NAME).read_text()
    assert open_record(tmp_path, PLAN, "003-evaluate-2", over).folder.name == "evaluation_2"
    assert (first.folder / NAME).read_text() == before


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["result", "seed", "n"]), inner),
    max_leaves=6,
)


@given(attempts=_JSON, owner=_JSON, ended=_JSON, resumed=_JSON)
def test_any_record_can_be_read(tmp_path_factory: pytest.TempPathFactory, **parts: Any) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    (run_dir / "evaluation").mkdir()
    (run_dir / "evaluation" / NAME).write_text(json.dumps({"plan": PLAN, **parts}))
    assert isinstance(open_record(run_dir, PLAN, "002-evaluate-1", over), Record)
