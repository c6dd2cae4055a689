import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.layout import Root
from ptb_tui.results.foreign import Arguments, age, parse_arguments, read_foreign, words
from tests.results.trees import MODELS, foreign_run


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_facts_of_a_finished_run(root: Root) -> None:
    folder = foreign_run(root, "codex_gpt-5.1_10h", "gsm8k", MODELS[1], 17001, started="[2026-08-01T10:00:00Z]")
    found = read_foreign(folder)
    assert found.arguments == Arguments("gsm8k", "codex", MODELS[1], "17001", "10", "gpt-5.1", "1")
    assert (found.ended, found.has_model, found.exhausted, found.origin) == (True, True, False, "upstream")
    assert found.started == "2026-08-01T10:00:00.000Z"


def test_without_a_stamp_the_oldest_file_is_the_start(root: Root) -> None:
    folder = foreign_run(root, "codex_gpt-5.1_10h", "gsm8k", MODELS[1], 17001)
    os.utime(folder / "time_taken.txt", (1_000_000_000, 1_000_000_000))
    assert read_foreign(folder).started == "2001-09-09T01:46:40.000Z"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gsm8k claude Q/Q 17 10 opus[1m] 8", Arguments("gsm8k", "claude", "Q/Q", "17", "10", "opus[1m]", "8")),
        ("gsm8k claude Q/Q 17 10 opus-4.6", Arguments("gsm8k", "claude", "Q/Q", "17", "10", "opus-4.6", "1")),
        ("gsm8k claude Qwen 17 10 x", None),
        ("", None),
        ("a b c/d e f g", None),
    ],
)  # fmt: skip
def test_argument_line(line: str, expected: Arguments | None) -> None:
    assert parse_arguments(line) == expected


@given(st.text())
def test_argument_line_is_total(line: str) -> None:
    parse_arguments(line)


def test_no_model_is_claimed_only_after_the_harvest(root: Root) -> None:
    early = foreign_run(root, "a_b_1h", "gsm8k", MODELS[0], 1, metrics=None, final_model=False, harvested=False)
    late = foreign_run(root, "a_b_1h", "gsm8k", MODELS[0], 2, metrics=None, final_model=False)
    assert read_foreign(early).has_model is None
    assert read_foreign(late).has_model is False


def test_the_last_attempts_log_means_exhausted(root: Root) -> None:
    folder = foreign_run(root, "a_b_1h", "gsm8k", MODELS[0], 1, metrics=None)
    assert not read_foreign(folder).exhausted
    (folder / "z_new_17_final_eval_9.txt").write_text("")
    assert read_foreign(folder).exhausted


def test_exported_runs_are_told_apart(root: Root) -> None:
    folder = foreign_run(root, "a_b_1h", "gsm8k", MODELS[0], 1)
    (folder / "cli_version.txt").write_text("update: harbor-managed\n")
    assert read_foreign(folder).origin == "harbor"


def test_no_state_is_invented(root: Root) -> None:
    folder = foreign_run(root, "a_b_1h", "gsm8k", MODELS[0], 1, metrics=None, time_taken=None)
    found = read_foreign(folder)
    assert words(found, found.last_change + 4) == "no sign that the agent ended; last change 4 s ago"
    assert not found.ended


def test_hostile_content_is_survived(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    os.mkfifo(folder / "output.log")
    (folder / "metrics.json").symlink_to("metrics.json")
    (folder / "final_model").symlink_to("/")
    (folder / os.fsdecode(b"\xff\n\x1b[31m")).write_text("")
    (folder / "cli_version.txt").mkdir()
    found = read_foreign(folder)
    assert found.has_model is None
    assert read_foreign(tmp_path / "absent").problem.startswith("cannot be read")


@pytest.mark.parametrize(("seconds", "text"), [(-5, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h")])
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text
