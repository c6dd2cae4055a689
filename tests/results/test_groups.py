from pathlib import Path

import pytest

from ptb_tui.core.errors import ConfigError
from ptb_tui.core.groups import parse_groups
from ptb_tui.core.scores import Board, CellScore, GroupScore, MethodScore, Worth
from ptb_tui.results.aggregates import tables
from ptb_tui.results.groups import group_rows

WEIGHTS = {"a": 0.25, "b": 0.75}


def method(name: str, score: float | None, **changes: object) -> MethodScore:
    cells = tuple(
        CellScore(method=name, benchmark=task, model="org/m", worth=Worth.SCORED, raw=score, used=score, stderr=0.01)
        for task in WEIGHTS
    )
    fields = {"score": score, "raw_score": score, "seconds": 3600.0, "cells": cells, **changes}
    return MethodScore.model_validate({"method": name, "protocol": "p", **fields})


def rows(*methods: MethodScore, **groups: tuple[str, ...]) -> dict[str, GroupScore]:
    return {row.name: row for row in group_rows(methods, WEIGHTS, groups)}


def test_mean_and_spread_of_one_two_and_three() -> None:
    made = [method(f"m{n}", value) for n, value in enumerate((0.2, 0.4, 0.9, 0.5, 0.5, 0.1))]
    found = rows(*made, one=("m0",), two=("m1", "m2"), three=("m3", "m4", "m5"))
    assert (found["one"].score, found["one"].std, found["one"].n) == (0.2, None, 1)
    assert found["two"].score == pytest.approx(0.65) and found["two"].n == 2
    assert found["two"].std == pytest.approx(0.3535533905932738)
    assert found["three"].std == pytest.approx(0.23094010767585033) and found["three"].n == 3
    assert "within the one run only" in found["one"].interval and found["two"].interval == "runs and items"
    assert list(found) == ["two", "three", "one"]  # best first


def test_a_group_needs_all_its_methods() -> None:
    found = rows(method("m0", 0.2), method("m1", None, reason="1 cell has no value"), both=("m0", "m1"), gone=("x",))
    assert found["both"].score is None and "m1: 1 cell has no value" in found["both"].reason
    assert found["gone"].reason == "x: no run under this protocol"


def test_methods_in_no_group_have_their_own_row() -> None:
    assert set(rows(method("m0", 0.2), method("m1", 0.3), g=("m0",))) == {"g", "m1"}


def test_unknown_money_stays_unknown() -> None:
    found = rows(method("m0", 0.2, cost_usd=2.0, tokens=10), method("m1", 0.3), both=("m0", "m1"))
    assert found["both"].cost_usd is None and found["both"].tokens is None
    found = rows(method("m0", 0.2, cost_usd=2.0), method("m1", 0.3, cost_usd=4.0), both=("m0", "m1"))
    assert found["both"].cost_usd == pytest.approx(3.0)


def test_flags_missing_cells_agreement_and_mixed_versions_are_shown() -> None:
    cells: list[dict[str, object]] = [
        {"worth": "flagged", "letters": "MC", "used": 0.1, "cli_version": "1", "fingerprint": "f1"},
        {"worth": "quarantined", "cli_version": "2", "opinions": {"j": (True, False), "k": (True, True)}},
    ]
    made = [
        CellScore.model_validate({"method": "m", "benchmark": task, "model": "org/m", **cell})
        for task, cell in zip(WEIGHTS, cells, strict=True)
    ]
    other = method("o", 0.2)
    found = rows(method("m", None, cells=tuple(made), marks=("2 versions of the CLI are mixed: 1 (1), 2 (1)",)), other)
    row = found["m"]
    assert row.letters == {"M": 1, "C": 1, "quarantined": 1} and row.agreement == (1, 2)
    assert (row.counted, row.cells, row.missing) == (1, 2, ("b on org/m: quarantined",))
    assert row.marks == ("2 versions of the CLI are mixed: 1 (1), 2 (1)",)


def test_fingerprints_that_differ_between_methods_of_a_group_are_marked() -> None:
    pair = [method(f"m{n}", 0.2) for n in range(2)]
    pair = [
        row.model_copy(update={"cells": tuple(c.model_copy(update={"fingerprint": row.method}) for c in row.cells)})
        for row in pair
    ]
    assert "2 fingerprints of the protocol in the group: m0, m1" in rows(*pair, g=("m0", "m1"))["g"].marks


def test_scores_under_other_weights() -> None:
    cells = tuple(
        CellScore(method="m", benchmark=task, model="org/m", worth=Worth.SCORED, used=value)
        for task, value in (("a", 0.0), ("b", 1.0))
    )
    row = rows(MethodScore(method="m", protocol="p", score=0.75, cells=cells))["m"]
    assert row.other_weights == {"equal weights": 0.5, "without a": 1.0, "without b": 0.0}


def test_the_originals_tables_of_groups() -> None:
    made = (method("m0", 0.2), method("m1", 0.4), method("m2", 0.6, seconds=7201.9))
    groups = group_rows(made, WEIGHTS, {"Two": ("m0", "m1"), "One": ("m2",)})
    board = Board(protocol="p", models=("org/m",), weights=WEIGHTS, methods=made, groups=groups)
    grids = {row.method: {"m": dict.fromkeys(WEIGHTS, row.score)} for row in made}
    found = tables(board, grids)
    assert found["aggregated_avg_Two.csv"].splitlines()[1].startswith("m,0.3")
    assert found["final_std_One.csv"] == "model,a,b\nm,,\n"  # one run has no deviation
    lines = found["single_metrics_aggregated.csv"].splitlines()
    assert lines[0] == "agent,avg,std,n" and lines[1] == "One,0.6,,1" and lines[2].endswith(",2")
    assert found["time_aggregated.csv"].splitlines()[1:] == ["One,2:00:01,,1", "Two,1:00:00,0:00:00,2"]
    assert {"avg_Two", "m0"} <= {line.partition(",")[0] for line in found["single_metrics.csv"].splitlines()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no group"),
        ("[groups]\n", "names no group"),
        ("x = 1\n[groups]\na = ['m']", "unknown key 'x'"),
        ("[groups]\na = []", "list of method folders"),
        ("[groups]\na = ['m']\nb = ['m']", "method m is in groups 'a' and 'b'"),
        ("[groups]\na = ['m', 'm']", "group 'a' twice"),
        ("[groups]\n'' = ['m']", "cannot be the name"),
        ("[groups", "not TOML"),
    ],
)
def test_slips_in_a_groups_file_are_named(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=r"groups\.toml") as caught:
        parse_groups(text, Path("groups.toml"))
    assert words in str(caught.value)


def test_a_groups_file() -> None:
    assert parse_groups('v = 1\n[groups]\n"A b" = ["m1", "m2"]', Path("g")) == {"A b": ("m1", "m2")}
