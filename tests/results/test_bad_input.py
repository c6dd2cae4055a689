"""Content that no run should have: a named status of its cell each, and never an end of `collect`."""

import os
import tempfile
from pathlib import Path

import pytest

from ptb_tui.core.layout import Root
from ptb_tui.core.scores import CellScore
from ptb_tui.results.collect import build_board
from ptb_tui.results.store import RunStore
from ptb_tui.results.tables import write_board
from tests.results.golden_trees import rules
from tests.results.trees import MODELS, foreign_run

METHOD = "codex_gpt-5.1_10h"
DATA = Path(__file__).parents[1] / "data"
METRICS = {
    "NaN": b'{"accuracy": NaN}',
    "Infinity": b'{"accuracy": Infinity}',
    "percent": b'{"accuracy": 73.4}',
    "string": b'{"accuracy": "0.7"}',
    "huge": b'{"accuracy": 1e400}',
    "huge whole": b'{"accuracy": ' + b"9" * 400 + b"}",
    "negative": b'{"accuracy": -0.2}',
    "missing": b'{"stderr": 0.1}',
    "null": b'{"accuracy": null}',
    "boolean": b'{"accuracy": true}',
    "list": b"[0.5]",
    "torn": b'{"accuracy": 0.',
    "two objects": b'{"accuracy": 0.5}{"accuracy": 0.6}',
    "UTF-16": '{"accuracy": 0.5}'.encode("utf-16"),
    "deep": b'{"accuracy":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "empty": b"",
    "zero bytes": b"\0" * 100,
    "large": b'{"accuracy": 0.5, "x": "' + b"x" * (2 << 20) + b'"}',
}


def cell(root: Root, policy: str = "finished") -> CellScore:
    scan = RunStore(root, use_cache=False).scan()
    board = write_board(root.path, build_board(scan.runs, rules("1.2"), policy=policy))
    return next(cell for cell in board.methods[0].cells if cell.run_id == 17_500_001)


@pytest.mark.parametrize("what", METRICS)
def test_metrics(tmp_path: Path, what: str) -> None:
    root = Root(tmp_path)
    run = foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
    (run / "metrics.json").write_bytes(METRICS[what])
    found = cell(root)
    assert (found.worth.value, found.raw, found.used) == ("failed", None, None)
    assert "metrics.json" in found.reason or "accuracy" in found.reason
    assert found.reason.isprintable() and len(found.reason) < 500
    assert cell(root, "upstream").used == rules("1.2").baseline(MODELS[0], "gsm8k")


@pytest.mark.parametrize("sample", sorted(path.name for path in (DATA / "judging" / "verdicts").iterdir()))
def test_verdicts(tmp_path: Path, sample: str) -> None:
    root = Root(tmp_path)
    run = foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
    (run / "judgement_gpt5_4.json").write_bytes((DATA / "judging" / "verdicts" / sample).read_bytes())
    found = cell(root)
    assert found.worth.value in ("scored", "flagged", "unjudged")
    assert found.verdicts["data_contamination_judge"] in ("clean", "flagged", "unreadable", "contradictory")
    assert (found.worth.value == "unjudged") == (found.verdicts["data_contamination_judge"] not in ("clean", "flagged"))
    assert found.worth.value == "scored" or found.reason


def test_what_lies_there_instead_of_files(tmp_path: Path) -> None:
    root = Root(tmp_path)
    run = foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
    (run / "metrics.json").unlink()
    (run / "metrics.json").mkdir()
    (run / "judgement_api.json").unlink()
    os.mkfifo(run / "judgement_api.json")
    (run / "time_taken.txt").unlink()
    (run / "time_taken.txt").symlink_to("/etc/hostname")
    assert cell(root).worth.value == "failed"


NOBODY = 65534


def test_a_folder_that_cannot_be_read() -> None:
    with tempfile.TemporaryDirectory() as base:
        os.chmod(base, 0o755)
        root = Root(Path(base))
        run = foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
        run.chmod(0)
        ours = os.geteuid()
        try:
            if ours == 0:  # root reads every folder
                os.chown(base, NOBODY, NOBODY)
                os.seteuid(NOBODY)
            found, problems = cell(root, "upstream"), RunStore(root, use_cache=False).scan().problems
        finally:
            os.seteuid(ours)
            run.chmod(0o755)
    assert found.worth.value == "missing" and found.reason.startswith("cannot be read: Permission denied")
    assert f"{METHOD}/{run.name}: cannot be read: Permission denied" in problems


def test_strange_names_are_reported_and_left_out(tmp_path: Path) -> None:
    root = Root(tmp_path)
    foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
    for name in (b"gsm8k_Qwen_\xff_1", b"\x1b[31mred", b"gsm8k__x_1", b"a_b_c_01", b"x_y_z_99999999999999999999", b" "):
        os.mkdir(os.fsencode(tmp_path / METHOD) + b"/" + name)
    (tmp_path / "loop").symlink_to("loop")
    scan = RunStore(root, use_cache=False).scan()
    assert [run.id for run in scan.runs] == [17_500_001]
    assert len(scan.problems) == 7 and all(words.isprintable() for words in scan.problems)
