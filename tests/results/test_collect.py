import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.errors import StorageError, UsageError
from ptb_tui.core.layout import Root
from ptb_tui.core.scores import Board, Worth
from ptb_tui.core.spec import ProtocolRef
from ptb_tui.results.collect import Rules, build_board, rules_of
from ptb_tui.results.store import scan
from ptb_tui.results.tables import write_board
from ptb_tui.results.verdicts import JudgePolicy
from tests.results.trees import CLEAN, MODELS, foreign_run, own_run

TASKS = ("gsm8k", "humaneval")
RULES = Rules(
    protocol="1.2",
    tasks=TASKS,
    models=MODELS[:2],
    weights={"gsm8k": 0.25, "humaneval": 0.75},
    baselines={MODELS[0]: {"gsm8k": 0.1, "humaneval": 0.2}, "Qwen3-4B-Base": {"gsm8k": 0.3, "humaneval": 0.4}},
    judges=(
        JudgePolicy("data_contamination_judge", "baseline"),
        JudgePolicy("api_usage_judge", "baseline"),
        JudgePolicy("ptb_lookup_judge", "quarantine"),
        JudgePolicy("general_judge"),
    ),
)
METHOD = "codex_gpt-5.1_10h"
OURS: dict[str, Any] = {"agent": "codex", "config": "gpt-5.1", "hours": 10.0, "gpus": 1, "benchmark": "gsm8k"}
FLAGGED = {**CLEAN, "data_contamination_judge": ("contamination", "disallowed_model")}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "results")


def board(root: Root, rules: Rules = RULES, **options: Any) -> Board:
    return build_board(scan(root, use_cache=False), rules, **options)


def full(root: Root) -> None:
    """Four cells: scored, flagged, no model, scored."""
    foreign_run(root, METHOD, "gsm8k", MODELS[0], 17500001, metrics='{"accuracy": 0.5}')
    foreign_run(root, METHOD, "gsm8k", MODELS[1], 17500002, metrics='{"accuracy": 0.9}', verdicts=FLAGGED)
    foreign_run(root, METHOD, "humaneval", MODELS[0], 17500003, metrics=None, final_model=False, verdicts={})
    foreign_run(root, METHOD, "humaneval", MODELS[1], 17500004, metrics='{"accuracy": 0.6}', time_taken="10:00:01\n")


def test_the_score_needs_a_value_in_every_cell(root: Root) -> None:
    full(root)
    (row,) = board(root).methods
    shown = [(cell.benchmark, cell.model, cell.worth.value, cell.raw, cell.used, cell.letters) for cell in row.cells]
    assert shown == [
        ("gsm8k", MODELS[0], "scored", 0.5, 0.5, ""),
        ("gsm8k", MODELS[1], "flagged", 0.9, 0.3, "MC"),
        ("humaneval", MODELS[0], "no_model", None, 0.2, ""),
        ("humaneval", MODELS[1], "scored", 0.6, 0.6, ""),
    ]
    assert row.score == pytest.approx(0.25 * (0.5 + 0.3) / 2 + 0.75 * (0.2 + 0.6) / 2)
    assert row.reason == ""


@pytest.mark.parametrize("broken", ["verdict", "metrics", "absent"])
def test_one_unknown_cell_leaves_the_method_without_score(root: Root, broken: str) -> None:
    full(root)
    cell = root.path / METHOD / "gsm8k_Qwen_Qwen3-1.7B-Base_17500001"
    if broken == "verdict":
        (cell / "judgement_api.json").write_text('{"disallowed_api_usage": null}')
    elif broken == "metrics":
        (cell / "metrics.json").write_text('{"accuracy": "0.5"}')
    else:
        cell.rename(root.path / METHOD / "gsm8k_Qwen_Other_17500001")
    found = board(root)
    (row,) = found.methods
    assert row.score is None
    kind = {"verdict": "unjudged", "metrics": "failed", "absent": "missing"}[broken]
    assert row.reason == f"1 cell has no value (1 {kind}): gsm8k on {MODELS[0]}"
    assert next(cell.used for cell in row.cells if cell.worth == kind) is None


def test_runs_under_another_protocol_are_not_mixed_in(root: Root) -> None:
    full(root)
    own_run(root, 1_800_000_001, start="2999-01-01T00:00:00.000Z", base_model=MODELS[0], **OURS)
    found = board(root)
    assert found.methods[0].cells[0].run_id == 17500001
    assert f"{METHOD}: 1 run under protocol demo left out" in found.problems


def test_ours_and_those_of_others_are_marked(root: Root) -> None:
    full(root)
    for number, model in enumerate(MODELS[:2]):
        own_run(
            root, 1_800_000_001 + number, start="2999-01-01T00:00:00.000Z", base_model=model,
            protocol=ProtocolRef(name="1.2", fingerprint=f"f{number}"), **OURS,
        )  # fmt: skip
    found = board(root)
    assert [cell.run_id for cell in found.methods[0].cells] == [1_800_000_001, 1_800_000_002, 17500003, 17500004]
    assert any("2 of 4 cells are runs of others (upstream)" in words for words in found.problems)
    assert any("2 fingerprints" in words and "f0 (1), f1 (1)" in words for words in found.problems)


def test_runs_of_others_are_held_to_the_protocols_judges(root: Root) -> None:
    full(root)
    lenient = Rules("1.2", TASKS, MODELS[:2], RULES.weights, RULES.baselines, (JudgePolicy("general_judge"),))
    worths = [cell.worth.value for cell in board(root, lenient).methods[0].cells]
    assert worths == ["scored", "scored", "no_model", "scored"]
    lookup = {**CLEAN, "ptb_lookup_judge": ("disallowed_ptb_lookup",)}
    foreign_run(root, METHOD, "gsm8k", MODELS[0], 17600001, verdicts=lookup, started="2999-01-01T00:00:00Z")
    assert board(root).methods[0].cells[0].worth is Worth.QUARANTINED


def test_methods_without_a_run_in_the_grid_have_no_row(root: Root) -> None:
    full(root)
    foreign_run(root, "other_x_10h", "aime2025", MODELS[0], 17500009)
    own_run(root, 5)
    assert [row.method for row in board(root).methods] == [METHOD]
    assert build_board(scan(root), RULES, methods=["nobody"]).methods == ()


def test_a_board_without_weights_has_no_scores(root: Root) -> None:
    full(root)
    rules = Rules("1.2", TASKS, MODELS[:2], {}, RULES.baselines, RULES.judges)
    assert board(root, rules).methods[0].reason == "protocol 1.2 has no weights"
    strange = Rules("1.2", TASKS, MODELS[:2], {"aime2025": 1.0}, RULES.baselines, RULES.judges)
    assert "aime2025" in board(root, strange).methods[0].reason


def test_an_unknown_policy_is_refused(root: Root) -> None:
    with pytest.raises(ValueError, match="finished, upstream"):
        board(root, policy="newest")


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_the_originals_tables(root: Root) -> None:
    full(root)
    (root.path / METHOD / "gsm8k_Qwen_Qwen3-1.7B-Base_17500001" / "judgement_api.json").unlink()
    written = write_board(root.path, board(root))
    folder = root.path / "_aggregated"
    assert written.files == (
        f"_aggregated/final_{METHOD}.csv",
        f"_aggregated/contamination_{METHOD}.csv",
        "_aggregated/time_overview.csv",
        "_aggregated/single_metrics.csv",
        "_aggregated/cells.json",
        "_aggregated/cells.csv",
        "_aggregated/board.json",
    )
    assert table((folder / f"final_{METHOD}.csv").read_text()) == [
        ["model", "gsm8k", "humaneval"],
        ["Qwen3-1.7B-Base", "0.1", "0.2"],  # unjudged and no model: both the base score here
        ["Qwen3-4B-Base", "0.3", "0.6"],
    ]
    assert table((folder / f"contamination_{METHOD}.csv").read_text()) == [
        ["model", "gsm8k", "humaneval"],
        ["Qwen3-1.7B-Base", "", ""],
        ["Qwen3-4B-Base", "MC", ""],
    ]
    assert table((folder / "time_overview.csv").read_text()) == [
        ["method", "average_time", "percentage"],
        [METHOD, "9:59:59", "100.0%"],  # the mean of 9:59:59 twice and 10:00:01, cut to seconds
    ]
    kept = Board.model_validate_json((folder / "board.json").read_bytes())
    assert kept.model_copy(update={"files": ()}) == board(root)
    assert kept.methods[0].cells[0].worth is Worth.UNJUDGED and kept.methods[0].cells[0].used is None


def test_times_are_of_evaluated_runs_and_may_be_absent(root: Root) -> None:
    foreign_run(root, METHOD, "gsm8k", MODELS[0], 17500001, metrics=None, time_taken="09:00:00")
    foreign_run(root, METHOD, "gsm8k", MODELS[1], 17500002, time_taken="bad")
    write_board(root.path, board(root))
    text = (root.path / "_aggregated" / "time_overview.csv").read_text()
    assert table(text)[1] == [METHOD, "N/A", "N/A"]


def test_writing_again_changes_nothing(root: Root) -> None:
    full(root)
    write_board(root.path, board(root))
    folder = root.path / "_aggregated"
    before = {path.name: (path.stat().st_ino, path.read_bytes()) for path in folder.iterdir()}
    write_board(root.path, board(root))
    assert {path.name: (path.stat().st_ino, path.read_bytes()) for path in folder.iterdir()} == before
    assert len(scan(root)) == 4  # the tables are no method


def test_tables_of_methods_that_are_gone_go_and_nobody_elses(root: Root) -> None:
    full(root)
    write_board(root.path, board(root))
    folder = root.path / "_aggregated"
    (folder / "final_avg_Agent.csv").write_text("theirs")
    body = json.loads((folder / "board.json").read_text())
    body["files"] += ["_aggregated/final_/../../precious.csv", "_aggregated/final_../x.csv", 7]
    (folder / "board.json").write_text(json.dumps(body))
    (root.path / "precious.csv").write_text("theirs")
    (root.path / METHOD).rename(root.path / "codex_gpt-5.2_10h")
    write_board(root.path, board(root))
    assert {path.name for path in folder.iterdir()} == {
        "final_avg_Agent.csv", "final_codex_gpt-5.2_10h.csv", "contamination_codex_gpt-5.2_10h.csv",
        "time_overview.csv", "single_metrics.csv", "cells.json", "cells.csv", "board.json",
    }  # fmt: skip
    assert (root.path / "precious.csv").exists()


def test_a_name_that_makes_no_file_is_a_problem_not_an_end(root: Root) -> None:
    full(root)
    (root.path / METHOD).rename(root.path / f"codex_{'x' * 245}_1h")
    written = write_board(root.path, board(root))
    assert any("File name too long" in words for words in written.problems)
    assert "_aggregated/board.json" in written.files


def test_a_folder_that_cannot_be_written_is_named(root: Root) -> None:
    full(root)
    (root.path / "_aggregated").write_text("a file")
    with pytest.raises(StorageError, match="_aggregated"):
        write_board(root.path, board(root))


def test_rules_come_from_a_protocol_file() -> None:
    from ptb_tui.content.protocols import Protocol, ProtocolJudge

    protocol = Protocol(
        name="mine", tasks=("a",), models=("org/m",), weights={"a": 1.0}, baselines={"org/m": {"a": 0.5}},
        judges=(ProtocolJudge(judge="general_judge", effect="baseline"),),
    )  # fmt: skip
    rules = rules_of(protocol)
    assert (rules.baseline("org/m", "a"), rules.baseline("org/x", "a")) == (0.5, None)
    assert rules.judges == (JudgePolicy("general_judge", "baseline", False),)


def test_the_cells_as_parquet(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    full(root)
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(UsageError, match="pyarrow"):
            write_board(root.path, board(root), parquet=True)
    parquet = pytest.importorskip("pyarrow.parquet")
    written = write_board(root.path, board(root), parquet=True)
    assert "_aggregated/cells.parquet" in written.files
    rows = parquet.read_table(root.path / "_aggregated" / "cells.parquet").to_pylist()
    assert [(row["status"], row["raw"], row["used"]) for row in rows][1] == ("flagged", 0.9, 0.3)
    write_board(root.path, board(root))
    assert not (root.path / "_aggregated" / "cells.parquet").exists()  # it would be out of date
