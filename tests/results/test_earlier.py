"""Rows of fingerprints that another one has replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.layout import Root
from ptb_tui.core.scores import Board
from ptb_tui.core.spec import ProtocolRef
from ptb_tui.results.collect import Rules, build_board
from ptb_tui.results.store import scan
from tests.results.trees import own_run

MODELS = ("org/a", "org/b")
RULES = Rules("p", ("demo",), MODELS, {"demo": 1.0}, {model: {"demo": 0.1} for model in MODELS})
METHOD = "reference_steps300_0.1h"


def run(root: Root, number: int, model: str, fingerprint: str, **more: Any) -> None:
    protocol = ProtocolRef(name="p", fingerprint=fingerprint)
    own_run(root, 1_800_000_000 + number, base_model=model, protocol=protocol, **more)


def board(root: Root, **options: Any) -> Board:
    rules = replace(RULES, differs=lambda before, after: f"{before} to {after}")
    return build_board(scan(root, use_cache=False), rules, **options)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "results")


def test_each_fingerprint_that_lost_a_cell_has_a_row_of_its_own_runs(root: Root) -> None:
    for number, (model, name) in enumerate([("org/a", "f1"), ("org/b", "f1"), ("org/a", "f2"), ("org/b", "f2")]):
        run(root, number, model, name)
    found = {row.method: row for row in board(root).methods}
    assert set(found) == {METHOD, f"{METHOD}@f1"}
    assert {cell.fingerprint for cell in found[METHOD].cells} == {"f2"} and not found[METHOD].marks
    assert {cell.fingerprint for cell in found[f"{METHOD}@f1"].cells} == {"f1"}
    assert found[f"{METHOD}@f1"].marks == ("runs of fingerprint f1, which others replace; since then f1 to f2",)
    assert [row.method for row in board(root, policy="upstream").methods] == [METHOD], "the original knows none"


def test_a_mixture_without_a_contest_is_one_row_with_a_mark(root: Root) -> None:
    run(root, 1, "org/a", "f1")
    run(root, 2, "org/b", "f2")
    (row,) = board(root).methods
    assert row.score is not None
    assert row.marks[0] == "cells of 2 fingerprints of the protocol are mixed: f1 (1), f2 (1) (f1 to f2)"


def test_runs_that_do_not_stand_contest_nothing(root: Root) -> None:
    run(root, 1, "org/a", "f1", outcome="failed", cause="gpu")
    run(root, 2, "org/a", "f2")
    assert [row.method for row in board(root).methods] == [METHOD]
