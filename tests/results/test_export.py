from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ptb_tui.core.errors import StorageError
from ptb_tui.core.layout import Root
from ptb_tui.results.export import Exporter, totals
from ptb_tui.results.store import scan
from tests.results.trees import MODELS, foreign_run, settle

KEY = "sk-proj-Ab3dE5gH7jK9mN1pQ2rS4tU6vW8x"
SECRETS = {"OPENAI_API_KEY": KEY}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = foreign_run(Root(tmp_path / "results"), "codex_gpt_10h", "gsm8k", MODELS[0], 7)
    (folder / "solve_out.txt").write_text(f"the key is {KEY}\n")
    (folder / "solve_parsed.txt").write_text("=== parsed\n")
    (folder / "solve_parsed_sanitized.txt").write_text("=== cleaned before\n")
    (folder / "judgement_gpt5_4.json").write_text("{}")
    (folder / "judgement_gpt5_4_rerun.json").write_text('{"rerun": true}')
    (folder / "judgement_api.json").write_text('{"not": "exported"}')
    (folder / "task" / "train.py").write_text(f"KEY = '{KEY}'\n")
    (folder / "task" / f"{KEY}.txt").write_text("x")
    return folder


def export(run: Path, out: Path, secrets: dict[str, str] = SECRETS, *, force: bool = False) -> dict[str, object]:
    exporter = Exporter(out, secrets, force=force)
    (record,) = scan(Root(run.parents[1]), use_cache=False)
    report = exporter.add(record)
    exporter.finish()
    return report


def test_what_is_exported(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = export(run, out)
    copy = out / "codex_gpt_10h" / run.name
    names = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert names == {
        "solve_out.txt", "solve_parsed.txt", "metrics.json", "time_taken.txt", "judgement_gpt5_4.json", "export.json",
        "task/train.py",
    }  # fmt: skip
    assert (copy / "solve_out.txt").read_text() == "the key is [redacted:OPENAI_API_KEY]\n"
    assert (copy / "solve_parsed.txt").read_text() == "=== cleaned before\n"
    assert (copy / "judgement_gpt5_4.json").read_text() == '{"rerun": true}'
    assert report["state"] == "exported" and report["left_out"] == {"a secret in its name": 1}
    assert totals([report]) == {"OPENAI_API_KEY": 2}
    said = json.loads((copy / "export.json").read_text())
    assert said["files"]["solve_out.txt"]["replaced"] == {"OPENAI_API_KEY": 1}
    assert said["files"]["judgement_gpt5_4.json"]["made_from"] == "judgement_gpt5_4_rerun.json"
    assert json.loads((out / "report.json").read_text())["replaced"] == {"OPENAI_API_KEY": 2}
    text = (out / "report.txt").read_text()
    assert text.startswith("1 exported\n") and "    task/train.py: 1 x OPENAI_API_KEY\n" in text
    assert KEY not in "".join(path.read_text() for path in out.rglob("*") if path.is_file() and path.name != "salt")
    assert not [name for name in os.listdir(out) if name.startswith(".new")]


def test_a_second_time_does_only_what_is_new(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(run, out)
    copy = out / "codex_gpt_10h" / run.name
    (copy / "mark").write_text("")
    again = export(run, out)
    assert again["state"] == "as before" and totals([again]) == {"OPENAI_API_KEY": 2} and (copy / "mark").exists()
    assert export(run, out, {**SECRETS, "OTHER_KEY": "another-secret"})["state"] == "exported"
    assert not (copy / "mark").exists()
    assert export(run, out, force=True)["state"] == "exported"
    settle(run, 5)
    (run / "solve_out.txt").write_text("new\n")
    assert export(run, out)["state"] == "exported" and (copy / "solve_out.txt").read_text() == "new\n"


def test_a_run_without_a_trace_is_missing(run: Path, tmp_path: Path) -> None:
    (run / "solve_out.txt").unlink()
    assert export(run, tmp_path / "out")["state"] == "missing"
    (run / "solve_out.txt").symlink_to("/etc/passwd")
    assert export(run, tmp_path / "out")["state"] == "missing"
    assert (tmp_path / "out" / "report.txt").read_text().startswith("1 missing\n")


def test_links_are_not_followed(run: Path, tmp_path: Path) -> None:
    (run / "error.log").symlink_to("/etc/passwd")
    (run / "task" / "link.txt").symlink_to("/etc/passwd")
    os.mkfifo(run / "system_monitor.log")
    report = export(run, tmp_path / "out")
    copy = tmp_path / "out" / "codex_gpt_10h" / run.name
    assert not (copy / "error.log").exists() and not (copy / "system_monitor.log").exists()
    assert report["left_out"] == {"a secret in its name": 1, "link or special file": 1}


def test_warnings_are_in_both_reports(run: Path, tmp_path: Path) -> None:
    (run / "solve_out.txt").write_text("x\nsk-ant-?\n")
    export(run, tmp_path / "out")
    assert "solve_out.txt:2: still has 'sk-ant': look at it" in (tmp_path / "out" / "report.txt").read_text()
    (report,) = json.loads((tmp_path / "out" / "report.json").read_text())["runs"]
    assert report["files"]["solve_out.txt"]["warnings"] == [{"line": 2, "found": "sk-ant", "before": ""}]


def test_names_that_are_too_long_for_the_copy(run: Path, tmp_path: Path) -> None:
    out = tmp_path.joinpath(*["o" * 200] * 3)
    (run / "task").joinpath(*["d" * 200] * 13).mkdir(parents=True)
    (run / "task").joinpath(*["d" * 200] * 13, "f" * 200).write_text("x")
    fd = os.open(run / "task" / Path(*["d" * 200] * 13), os.O_RDONLY)
    for _ in range(4):
        os.mkdir("e" * 250, dir_fd=fd)
        inner = os.open("e" * 250, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("file.txt", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)
    assert export(run, out)["state"] == "exported"


def test_a_place_that_cannot_be_written(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        Exporter(tmp_path / "file", SECRETS)
