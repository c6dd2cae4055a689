"""What published numbers and the rules of the original ask of the scores (E §9, tests 1, 2, 4, 6 and 7)."""

import csv
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core import names
from ptb_tui.core.errors import ContentError
from ptb_tui.core.layout import Root
from ptb_tui.core.scores import Board, CellScore, MethodScore
from ptb_tui.results.collect import build_board
from ptb_tui.results.leaderboard import check_weights, derive_weights
from ptb_tui.results.store import RunStore
from ptb_tui.results.tables import time_table, write_board
from tests.results.golden_trees import FULL, GOLDEN, PUBLISHED, rules, tree
from tests.results.trees import CLEAN, MODELS, foreign_run, verdict_text

CONTAMINATED = {**CLEAN, "data_contamination_judge": ("contamination",)}
METHOD = "codex_gpt-5.1_10h"


@pytest.mark.parametrize("version", ["1.0", "1.2"])
def test_published_cells_and_scores(tmp_path: Path, version: str) -> None:
    root = Root(tmp_path)
    rows = tree(root, version)
    for policy in ("finished", "upstream"):
        board = build_board(RunStore(root, use_cache=False).scan().runs, rules(version), policy=policy)
        assert {row.method for row in board.methods} == set(rows)
        for row in board.methods:
            golden = rows[row.method]
            assert row.score == pytest.approx(golden["score"], abs=1e-9)
            assert row.raw_score == pytest.approx(golden["score"], abs=1e-9)
            for cell in row.cells:
                assert cell.used == pytest.approx(
                    golden["cells"][cell.model.rpartition("/")[2]][cell.benchmark], abs=1e-9
                )
        scores = [row.score or 0.0 for row in board.groups]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(("version", "data"), [("1.0", "v1.0_v1.1"), ("1.1", "v1.0_v1.1"), ("1.2", "v1.2")])
def test_the_weights_of_the_protocols_follow_from_their_references(version: str, data: str) -> None:
    found = rules(version)
    assert found.problems == ()
    assert dict(found.weights) == pytest.approx(GOLDEN["weights"][data], abs=1e-12)


def test_other_weights_are_named_and_no_gain_is_an_error() -> None:
    base, instruct = {"b": {"x": 0.1, "y": 0.1}}, {"i": {"x": 0.3, "y": 0.5}}
    weights = derive_weights(instruct, base, ["x", "y"])
    assert check_weights(weights, instruct, base) == []
    assert "weight of x" in check_weights({**weights, "x": weights["x"] + 1e-11}, instruct, base)[0]
    with pytest.raises(ContentError, match="not better"):
        check_weights({"x": 1.0}, base, base)


def test_rows_without_runs_are_published_references() -> None:
    shown = {row.name: row for row in rules("1.2").references}
    assert shown["base models"].score == pytest.approx(GOLDEN["references"]["base_zero_shot"]["score"], abs=1e-9)
    assert all(row.published and not row.methods for row in shown.values())
    for name, row in PUBLISHED["leaderboard_v1.0"].items():
        found = next(other for other in rules("1.0").references if other.name == name)
        assert (found.score, found.std, found.n) == (row["avg"], row["std"], row["n"])


@pytest.mark.parametrize(("run_id", "worth"), [(17_399_999, "scored"), (17_400_000, "unjudged")])
def test_the_lookup_verdict_is_asked_of_newer_runs(tmp_path: Path, run_id: int, worth: str) -> None:
    root = Root(tmp_path)
    verdicts = {judge: flags for judge, flags in CLEAN.items() if judge != "ptb_lookup_judge"}
    foreign_run(root, METHOD, "gsm8k", MODELS[0], run_id, verdicts=verdicts)
    (row,) = build_board(RunStore(root, use_cache=False).scan().runs, rules("1.2"), policy="upstream").methods
    cell = next(cell for cell in row.cells if cell.run_id == run_id)
    assert (cell.worth.value, row.withheld) == (worth, worth == "unjudged")


def test_a_scored_run_without_verdict_withholds_the_tables_of_its_method_alone(tmp_path: Path) -> None:
    root = Root(tmp_path)
    foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
    foreign_run(root, "other_x_10h", "gsm8k", MODELS[0], 17_500_002)
    write_board(tmp_path, upstream(root))
    (tmp_path / METHOD / f"gsm8k_{names.safe(MODELS[0])}_17500001" / "judgement_api.json").unlink()
    board = write_board(tmp_path, upstream(root))
    assert not (tmp_path / "_aggregated" / f"final_{METHOD}.csv").exists()
    assert (tmp_path / "_aggregated" / "final_other_x_10h.csv").exists()
    assert any("api_usage_judge" in words and METHOD in words for words in board.problems)


def test_a_flag_does_not_stand_for_the_verdict_of_another_judge(tmp_path: Path) -> None:
    root = Root(tmp_path)
    run = foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001, verdicts=CONTAMINATED)
    clean = verdict_text("api_usage_judge")
    for text, withheld, letters in ((None, True, "C"), ("{torn", False, ""), (clean, False, "C")):
        if text is None:
            (run / "judgement_api.json").unlink()
        else:
            (run / "judgement_api.json").write_text(text)
        (row,) = upstream(root).methods
        cell = next(cell for cell in row.cells if cell.run_id == 17_500_001)
        assert (row.withheld, cell.letters, cell.used) == (withheld, letters, rules("1.2").baseline(MODELS[0], "gsm8k"))


def test_what_nobody_judged_is_no_raw_score_either(tmp_path: Path) -> None:
    root = Root(tmp_path)
    for number, (task, model) in enumerate(itertools.product(rules("1.2").tasks, MODELS)):
        foreign_run(root, METHOD, task, model, 17_500_001 + number)
    scored = next(iter(build_board(RunStore(root).scan().runs, rules("1.2")).methods))
    assert scored.raw_score == scored.score is not None
    next(tmp_path.glob(f"{METHOD}/gsm8k_*/judgement_api.json")).unlink()
    unjudged = next(iter(build_board(RunStore(root, use_cache=False).scan().runs, rules("1.2")).methods))
    assert (unjudged.score, unjudged.raw_score) == (None, None)
    assert all(cell.raw is not None for cell in unjudged.cells)


def upstream(root: Root) -> Board:
    return build_board(RunStore(root, use_cache=False).scan().runs, rules("1.2"), policy="upstream")


def full(root: Root, first: int = 17_500_000) -> list[Path]:
    """All 24 cells of a method at 0.5."""
    tasks = rules("1.2").tasks
    pairs = [(task, model) for task in tasks for model in MODELS]
    return [foreign_run(root, METHOD, *pair, first + number) for number, pair in enumerate(pairs)]


def test_the_originals_fallback_letters_and_score(tmp_path: Path) -> None:
    """An unfinished run, a broken one, flags, and an unreadable verdict: base scores; letters only where judged."""
    root = Root(tmp_path)
    runs = full(root)
    (runs[0] / "metrics.json").unlink()
    (runs[1] / "metrics.json").write_text('{"accuracy": true}')
    (runs[2] / "judgement_gpt5_4.json").write_text('{"contamination": "false"}')
    for run, flags in ((runs[3], ("contamination",)), (runs[4], ("disallowed_model", "contamination"))):
        text = {flag: flag in flags for flag in ("contamination", "disallowed_model")}
        reasons = {f"justification_{flag}": "seen" for flag in text}
        (run / "judgement_gpt5_4.json").write_text(json.dumps({**text, **reasons}))
    foreign_run(root, METHOD, "humaneval", MODELS[3], 17_600_000, metrics=None, verdicts={})  # newer, and not evaluated
    board = write_board(tmp_path, upstream(root))
    (row,) = board.methods
    given = rules("1.2")
    expected = dict.fromkeys([(cell.benchmark, cell.model) for cell in row.cells], 0.5)
    fallback = [*list(expected)[:5], ("humaneval", MODELS[3])]
    expected |= {key: given.baseline(key[1], key[0]) for key in fallback}  # type: ignore[misc]
    assert {(cell.benchmark, cell.model): cell.used for cell in row.cells} == expected
    assert [cell.letters for cell in row.cells[:5]] == ["", "", "", "C", "MC"]
    assert {cell.by for cell in row.cells} == {"upstream"}
    with open(tmp_path / "_aggregated" / "single_metrics.csv") as file:
        metrics = list(csv.DictReader(file))
    assert float(metrics[0]["metric"]) == pytest.approx(row.score, abs=1e-12)


def test_a_task_without_any_run_makes_the_method_ineligible_and_leaves_its_column_out(tmp_path: Path) -> None:
    root = Root(tmp_path)
    foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
    board = write_board(tmp_path, upstream(root))
    assert board.methods[0].score is None
    text = (tmp_path / "_aggregated" / f"final_{METHOD}.csv").read_text()
    assert text == "model,gsm8k\nQwen3-1.7B-Base,0.5\n"


def test_a_lookup_flag_quarantines_its_run_and_stops_nothing_else(tmp_path: Path) -> None:
    root = Root(tmp_path)
    flagged = {**CLEAN, "ptb_lookup_judge": ("disallowed_ptb_lookup",)}
    foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001, verdicts=flagged)
    foreign_run(root, "other_x_10h", "gsm8k", MODELS[0], 17_500_002)
    for policy in ("finished", "upstream"):
        board = build_board(RunStore(root, use_cache=False).scan().runs, rules("1.2"), policy=policy)
        cells = {row.method: next(cell for cell in row.cells if cell.run_id) for row in board.methods}
        assert (cells[METHOD].worth.value, cells[METHOD].used) == ("quarantined", None)
        assert cells["other_x_10h"].worth.value == "scored"


def test_names_are_read_and_strange_ones_are_reported(tmp_path: Path) -> None:
    methods = json.loads((Path(__file__).parents[1] / "data" / "method_names.json").read_text())
    agents = (
        "claude",
        "claude_non_api",
        "claude_non_api_max",
        "claude_reprompt",
        "codex",
        "codex_non_api_max_personal",
    )
    for name in methods:
        parsed = names.parse_method(name, agents)
        assert parsed is not None and parsed.render() == name
    root = Root(tmp_path)
    foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
    for name in ("gsm8k_a_b_c_d_12", "notes", "gsm8k_Qwen_Qwen3-4B-Base_17x"):
        (tmp_path / METHOD / name).mkdir()
    scan = RunStore(root, use_cache=False).scan()
    reported = [words for words in scan.problems if "not the name of a run" in words]
    assert sorted(words.partition(":")[0].rpartition("/")[2] for words in reported) == [
        "gsm8k_Qwen_Qwen3-4B-Base_17x", "notes",
    ]  # fmt: skip
    (row,) = build_board(scan.runs, rules("1.2"), policy="upstream").methods
    assert [cell.run_id for cell in row.cells if cell.run_id] == [17_500_001]


def _timed(method: str, seconds: Sequence[float | None]) -> MethodScore:
    known = [value for value in seconds if value is not None]
    cells = tuple(
        CellScore(method=method, benchmark="b", model=f"m{n}", worth="scored", raw=0.5, seconds=value)
        for n, value in enumerate(seconds)
    )
    return MethodScore(method=method, protocol="1.2", cells=cells, seconds=sum(known) / len(known) if known else None)


def _seconds(text: str) -> float | None:
    if text == "N/A":
        return None
    hours, minutes, seconds = map(int, text.split(":"))
    return float(hours * 3600 + minutes * 60 + seconds)


def test_published_times_and_shares() -> None:
    samples: Mapping[str, Sequence[str]] = PUBLISHED["time_overview_samples"]
    overview = {row["method"]: [row["average_time"], row["percentage"]] for row in PUBLISHED["time_overview"]}
    expected = {**samples, **overview}
    board = Board(protocol="1.2", methods=tuple(_timed(name, [_seconds(row[0])]) for name, row in expected.items()))
    rows = list(csv.reader(time_table(board).splitlines()))[1:]
    assert {row[0]: row[1:] for row in rows} == {name: list(row) for name, row in expected.items()}


def test_average_times_are_cut_to_seconds(tmp_path: Path) -> None:
    root = Root(tmp_path)
    for number, text in enumerate(("1:00:00", "1:00:01", "no time", "1:00:01")):
        foreign_run(root, METHOD, "gsm8k", MODELS[number], 17_500_001 + number, time_taken=text)
    assert time_table(upstream(root)).splitlines()[1] == f"{METHOD},1:00:00,10.0%"  # the mean is 1:00:00.67


def test_spread_of_published_cells() -> None:
    """Three invented runs with the published mean and sample deviation of each cell give them back."""
    from ptb_tui.results.statistics import spread

    golden = next(row for row in GOLDEN["methods"] if row["name"] == "Opus-4.5" and row["version"] == "v1.0")
    for model, cells in PUBLISHED["opus_4_5_std"].items():
        for benchmark, deviation in cells.items():
            average = golden["cells"][model][benchmark]
            found: Any = spread([average - deviation, average, average + deviation])
            assert found == (pytest.approx(average, abs=1e-9), pytest.approx(deviation, abs=1e-9), 3)
    assert set(FULL) == set(PUBLISHED["opus_4_5_std"])
