"""What a grader said and cost, and why it gave up."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.causes import causes
from ptb_tui.evaluation import grading


@pytest.mark.parametrize("kind", ["credit", "key", "limit", "endpoint", "reply"])
def test_what_stopped_a_grader_is_said_with_what_to_do(kind: str) -> None:
    row = causes()[f"grader_{kind}"]
    assert row.counts == "no" and row.retry == "ask"
    said = grading.explained(f"healthbench: graded 3 of 6, grading incomplete ({kind}): Error code: 402")
    assert said.startswith(f"{row.words}, graded 3 of 6; ") and said.endswith("(Error code: 402)")
    assert "`ptb-tui eval RUN`" in said


def test_other_lines_stay_as_they_are() -> None:
    assert grading.explained("healthbench: something else") == "healthbench: something else"
    assert "graded 1 of 2" in grading.explained("graded 1 of 2, grading incomplete (of another world): x")
    assert grading.explained("graded 1 of 2, grading incomplete").startswith(causes()["grading_incomplete"].words)


def write(folder: Path, *lines: object) -> Path:
    folder.mkdir()
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    (folder / grading.CALLS).write_text(text)
    return folder


def test_calls_add_up(tmp_path: Path) -> None:
    answered = {"asked": "gpt-5-mini", "model": "gpt-5-mini-2025-08-07", "input": 100, "output": 20, "cost_usd": 0.5}
    found = grading.record(write(tmp_path / "g", answered, {"asked": "gpt-5-mini", "failed": "limit"}, answered, "{to"))
    assert found == {
        "calls": 3,
        "failed": {"limit": 1},
        "asked": ["gpt-5-mini"],
        "models": {"gpt-5-mini-2025-08-07": 2},
        "tokens": {"input": 200, "output": 40},
        "cost_usd": 1.0,
    }
    assert grading.record(tmp_path / "none") == {}
    (tmp_path / "g" / "regraded.json").write_text('{"items": 25, "first": 0.5, "again": 0.52}')
    assert grading.record(tmp_path / "g")["regraded"] == {"items": 25.0, "first": 0.5, "again": 0.52}


def test_a_cost_that_is_not_known_of_every_call_is_none(tmp_path: Path) -> None:
    assert grading.record(write(tmp_path / "g", {"cost_usd": 1}, {"model": "m"}))["cost_usd"] is None
    assert grading.record(write(tmp_path / "h", {"failed": "key"}))["cost_usd"] is None


@given(st.lists(st.dictionaries(st.sampled_from(["asked", "model", "input", "cost_usd", "failed"]),
                                st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
                                          st.lists(st.integers(), max_size=2))), max_size=5))  # fmt: skip
def test_any_calls_can_be_read(rows: list[dict[str, object]]) -> None:
    found = grading.add_up(json.dumps(row).encode() for row in rows)
    assert json.loads(json.dumps(found, allow_nan=False)) == found and found.get("calls", 0) == len(rows)


@given(st.binary(max_size=60))
def test_any_bytes_can_be_read(data: bytes) -> None:
    grading.add_up([data])
