"""Paths, step names and unique ids."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.layout import Root, RunFiles, StepName, allocate_id, parse_step_folder

names = st.one_of(
    st.just(StepName("agent")),
    st.builds(StepName, st.just("evaluate"), st.just(""), st.integers(1, 999)),
    st.builds(StepName, st.just("judge"), st.from_regex(r"[A-Za-z0-9_.]{1,30}", fullmatch=True), st.integers(1, 99)),
)


@given(names, st.integers(1, 5000))
def test_step_folders_round_trip(name: StepName, number: int) -> None:
    assert parse_step_folder(name.folder(number)) == (number, name)


@given(st.text(max_size=40))
def test_any_text_is_a_step_folder_or_not(text: str) -> None:
    parsed = parse_step_folder(text)
    if parsed is not None:
        assert parsed[1].folder(parsed[0]).split("-", 1)[1] == text.split("-", 1)[1]


def test_a_run_s_steps_in_order(tmp_path: Path) -> None:
    for name in ("010-evaluate-2", "002-judge-api_usage_judge-1", "001-agent", "notes", "003-judge-1"):
        (tmp_path / "steps" / name).mkdir(parents=True)
    assert [str(name) for _, name, _ in RunFiles(tmp_path).step_folders()] == [
        "agent",
        "judge:api_usage_judge#1",
        "evaluate#2",
    ]


def test_ids_are_unique_for_processes_that_ask_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ptb_tui.core.layout import *\n"
        "print([allocate_id(Root(Path(sys.argv[1]))) for _ in range(28)])"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) for _ in range(2)
    ]
    ids: list[int] = []
    for process in processes:
        out, _ = process.communicate(timeout=60)
        ids += [int(word) for word in out.decode().strip("[]\n").split(",")]
    assert len(set(ids)) == 56
    assert allocate_id(Root(tmp_path)) > max(ids)


def test_an_id_is_above_all_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "_ptb" / "ids" / "99999999999").mkdir(parents=True)
    assert allocate_id(Root(tmp_path)) == 100000000000
