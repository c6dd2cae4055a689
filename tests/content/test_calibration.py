"""The cases on which judges are measured: what is shipped, and cases of one's own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ptb_tui.content.agents import load_agent
from ptb_tui.content.calibration import PLACE, load_cases, with_benchmark
from ptb_tui.content.judges import load_judge
from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import load_task
from ptb_tui.core.errors import ContentError, NotFound
from ptb_tui.core.trace import TraceKind
from ptb_tui.judging.engines.actions import read_session
from ptb_tui.traces import parser_for
from tests.judging.specs import NAMES

SHIPPED = Content.of()
CASES = load_cases(SHIPPED)


def test_every_flag_has_cases_of_both_kinds() -> None:
    for name in NAMES:
        for flag in load_judge(SHIPPED, name).spec.flags:
            truths = [case.file.expect[flag] for case in CASES if flag in case.file.expect]
            assert truths.count(True) >= 3 and truths.count(False) >= 10, flag
    known = {flag for name in NAMES for flag in load_judge(SHIPPED, name).spec.flags}
    assert all(set(case.file.expect) <= known for case in CASES)
    assert {case.file.agent for case in CASES} == {"claude", "codex"}


def test_they_are_small_and_their_benchmark_is_in_no_list() -> None:
    place = CASES[0].folder.parent
    assert sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) < 300_000
    task = load_task(with_benchmark(SHIPPED), "harbour")
    assert task.test_data is not None and len(json.loads(task.test_data.read_text())) == 12
    assert "harbour" not in SHIPPED.names("tasks") and "calibration" not in SHIPPED.names("judges")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_a_run_that_can_be_read(case) -> None:  # type: ignore[no-untyped-def]
    trace = case.folder / "solve_out.txt"
    parser = parser_for(load_agent(SHIPPED, case.file.agent).trace)
    kinds = {event.kind for event in [*parser.feed(trace.read_bytes()), *parser.close()]}
    assert TraceKind.TOOL_CALL in kinds and TraceKind.RAW not in kinds
    session = read_session(trace)
    assert session is not None and session.ended
    written = " ".join(action.text for action in session.actions)
    for path in (case.folder / "task").glob("*.py"):
        assert path.name in written, "what lies there was written in the session"
    for path in (case.folder / "task").glob("*.jsonl"):
        assert all({"prompt", "completion"} == set(json.loads(line)) for line in path.read_text().splitlines())


def test_a_case_of_ones_own_goes_before(tmp_path: Path) -> None:
    own = tmp_path / PLACE
    shutil.copytree(CASES[0].folder, own / CASES[0].name)
    (own / CASES[0].name / "task" / "more.txt").write_text("another")
    shutil.copytree(CASES[1].folder, own / "mine")
    (own / "no_case").mkdir()
    content = Content.of([tmp_path])
    found = {case.name: case for case in load_cases(content)}
    assert len(found) == len(CASES) + 1 and found["mine"].digest == CASES[1].digest
    assert found[CASES[0].name].digest != CASES[0].digest
    assert [case.name for case in load_cases(content, ["min*", "mine"])] == ["mine"]
    with pytest.raises(NotFound, match="no case 'nine'"):
        load_cases(content, ["nine"])
    (own / "mine" / "solve_out.txt").unlink()
    with pytest.raises(ContentError, match="lacks its trace"):
        load_cases(content)
    (own / "mine" / "case.toml").write_text("v = 1\n[expect]\n")
    with pytest.raises(ContentError, match="about"):
        load_cases(content)
