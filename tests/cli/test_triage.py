"""`triage` and `export` on the real command line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.layout import Root
from tests.cli.drive import environment, finish, real
from tests.results.trees import MODELS, foreign_run, own_run

KEY = "sk-proj-Ab3dE5gH7jK9mN1pQ2rS4tU6vW8x"
TRACES = Path(__file__).parents[1] / "data" / "traces"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    found = Root(tmp_path / "results")
    found.path.mkdir()
    return found


# Root without its power over other people's rights: what a folder forbids its owner is then forbidden.
PLAIN = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


def call(root: Root, *words: str, plain: bool = False) -> subprocess.CompletedProcess[str]:
    argv = [*(PLAIN if plain else ()), *real(*words)]
    return finish(argv, environment(root.path.parent), cwd=root.path.parent)


def answer(root: Root, *words: str) -> tuple[int, dict[str, Any]]:
    done = call(root, *words, "--json")
    return done.returncode, json.loads(done.stdout)


def test_nothing_needs_anybody(root: Root) -> None:
    own_run(root, 1)
    done = call(root, "triage")
    assert (done.returncode, done.stdout) == (0, "nothing needs you: looked at 1 run\n")


def test_what_needs_somebody(root: Root) -> None:
    own_run(root, 1, outcome="failed", cause="gpu")
    limited = foreign_run(root, "codex_gpt-5_10h", "gsm8k", MODELS[0], 7, metrics=None)
    (limited / "solve_out.txt").write_bytes((TRACES / "codex.usage_plan.jsonl").read_bytes())
    done = call(root, "triage")
    assert done.returncode == 1
    limit, gpu = done.stdout.index("A limit or a login"), done.stdout.index("say nothing about their agent")
    assert limit < gpu and "solve_out.txt, byte 449: " in done.stdout and done.stdout.endswith("2 findings in 2 runs\n")
    code, found = answer(root, "triage")
    assert code == 1 and found["kind"] == "triage"
    assert [(finding["run"], finding["cost"]) for finding in found["findings"]] == [(7, "limit"), (1, "queue")]


def test_cells_without_a_run(root: Root) -> None:
    for model in MODELS[:2]:
        foreign_run(root, "codex_gpt-5_10h", "gsm8k", model, 7 + MODELS.index(model))
    foreign_run(root, "claude_opus_10h", "gsm8k", MODELS[0], 20)
    assert call(root, "triage").returncode == 0
    code, found = answer(root, "triage", "--tasks", "gsm8k")
    assert code == 1
    assert [(finding["method"], finding["model"]) for finding in found["findings"]] == [("claude_opus_10h", MODELS[1])]
    assert answer(root, "triage", "--agents", "codex")[0] == 0
    code, told = answer(root, "triage", "--agents", "codx")
    assert code == 2 and "'codex'" in told["error"]["hint"], "a slip of the pen is no all-clear"
    code, found = answer(root, "triage", "--agents", "codex", "--models", "new/model")
    assert [finding["model"] for finding in found["findings"]] == ["new/model"]


def test_what_a_person_has_reviewed(root: Root) -> None:
    folder = foreign_run(root, "codex_gpt-5_10h", "gsm8k", MODELS[0], 7, metrics=None)
    assert answer(root, "triage")[0] == 1
    with open(root.path.parent / ".env", "a") as file:
        file.write(f"POST_TRAIN_BENCH_NO_METRICS_IS_FINE=other:{folder}\n")
    assert answer(root, "triage")[0] == 0


def test_export(root: Root, tmp_path: Path) -> None:
    folder = foreign_run(root, "codex_gpt-5_10h", "gsm8k", MODELS[0], 7)
    foreign_run(root, "codex_gpt-5_10h", "bfcl", MODELS[0], 8)
    (folder / "solve_out.txt").write_text(f"{KEY}\n")
    code, receipt = answer(root, "export", "7", "--out", "given")
    copy = tmp_path / "given" / "codex_gpt-5_10h" / folder.name
    assert code == 0 and receipt["runs"][0]["words"] == "exported, 1 replaced"
    assert (copy / "solve_out.txt").read_text() == "[redacted:OPENAI_API_KEY]\n"
    assert answer(root, "export", "7", "--out", "given")[1]["runs"][0]["words"] == "as before, 1 replaced"
    done = call(root, "export")
    assert done.returncode == 1 and "1 of 2 runs exported" in done.stdout  # one has no trace
    assert (root.ptb / "export" / "report.txt").is_file() and len(os.listdir(root.ptb / "journal")) >= 1
    assert call(root, "export", "7", "--all").returncode == 2


def test_export_of_a_tree_that_may_only_be_read(root: Root, tmp_path: Path) -> None:
    folder = foreign_run(root, "codex_gpt-5_10h", "gsm8k", MODELS[0], 7)
    (folder / "solve_out.txt").write_text("x\n")
    os.chmod(root.path, 0o555)
    try:
        assert call(root, "export", plain=True).returncode == 2
        assert call(root, "export", "--out", str(tmp_path / "given"), plain=True).returncode == 0
        assert (tmp_path / "given" / "codex_gpt-5_10h" / folder.name / "solve_out.txt").read_text() == "x\n"
    finally:
        os.chmod(root.path, 0o755)
