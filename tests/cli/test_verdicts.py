"""`flagged`, `review` and the verdicts of `show` on the real command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ptb_tui.cli import main
from ptb_tui.core.layout import Root
from tests.cli.drive import environment, finish, real
from tests.cli.test_triage import PLAIN
from tests.results.trees import CLEAN, own_run

DATA = "data_contamination_judge"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    found = Root(tmp_path / "results")
    own_run(found, 7, verdicts={**CLEAN, DATA: ("contamination",)}, why="prep.py line 14 \x1b[31mloads the test split")
    return found


@pytest.fixture
def command(root: Root, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process: (exit code, stdout, stderr)."""
    for name, value in environment(root.path.parent).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(root.path.parent)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        return code, *capsys.readouterr()

    return run


def test_from_the_queue_to_a_decision(command: Command) -> None:
    code, listed, _ = command("flagged")
    assert code == 1 and "prep.py line 14 loads the test split" in listed
    assert f"do  ptb-tui review 7 {DATA} clear" in listed and "\x1b" not in listed
    one = json.loads(command("flagged", "--judge", "gpt5_4", "--json")[1])
    assert [item["why"] for item in one["verdicts"]] == ["flagged"]
    words = ("review", "7", "gpt5_4", "clear", "--reason", "the split is that for training")
    assert "would be" in command(*words, "--dry-run")[1]
    code, done, errors = command(*words)
    assert (code, errors) == (0, "") and "the run was flagged, now scored" in done
    assert command("flagged") == (0, "0 verdicts in 1 run, 1 decided by people\n", "")
    shown = command("show", "7")[1]
    assert "the split is that for training" in shown
    assert "the verdict changed: it was flagged (contamination) first" in shown


def test_mistakes_say_what_to_do(command: Command) -> None:
    for words, remedy in (
        (("review", "7", "api", "flag"), "--reason TEXT"),
        (("review", "7", "api", "perhaps", "--reason", "x"), "one of: clear, flag, confirm"),
        (("review", "7", DATA, "flag", "--reason", "x"), "--field contamination or disallowed_model"),
        (("review", "7", "moon", "flag", "--reason", "x"), "its judges: data_contamination_judge"),
        (("review", "7", "api", "flag", "--reason", "x" * 5000), "4000 characters"),
    ):
        code, printed, errors = command(*words)
        assert (code, printed) == (2, "") and remedy in errors, errors


def test_a_root_that_may_only_be_read(root: Root) -> None:
    for path in (root.path, *root.path.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        words = real("review", "7", "api", "clear", "--reason", "x")
        done = finish([*PLAIN, *words], environment(root.path.parent), cwd=root.path.parent)
        assert done.returncode == 2 and "POST_TRAIN_BENCH_EXTRA_RESULTS_DIRS" in done.stderr
    finally:
        for path in (root.path, *root.path.rglob("*")):
            path.chmod(0o755)
