"""The table of cells as CSV: texts that a spreadsheet would compute are texts, and numbers read back as the same."""

import csv
import json

import pytest

from ptb_tui.core.scores import Board, CellScore, MethodScore, Worth
from ptb_tui.results.celltable import COLUMNS, tables


@pytest.mark.parametrize("method", ["=1+1", "+a", "-2+3", "@SUM(A1)", "\t=1", "plain", 'a,"b"\nc'])
def test_no_formula_and_no_lost_number(method: str) -> None:
    cell = CellScore(method=method, benchmark="gsm8k", model="m", worth=Worth.SCORED, run_id=5, raw=0.1 + 0.2, used=0.3,
                     reason=method, other_runs=(1, 2), evidence=("=x", "y"))  # fmt: skip
    found = tables(Board(protocol="1.2", methods=(MethodScore(method=method, protocol="1.2", cells=(cell,)),)))
    text = found["cells.csv"]
    assert isinstance(text, str)
    header, row = csv.reader(text.splitlines(keepends=True))
    assert tuple(header) == COLUMNS
    read = dict(zip(header, row, strict=True))
    assert read["method"].removeprefix("'") == read["reason"].removeprefix("'") == method
    assert all(value[:1] not in "=+-@\t\r" for value in row if value)
    assert (float(read["raw"]), read["run_id"], read["stderr"], read["other_runs"]) == (0.1 + 0.2, "5", "", "1 | 2")
    (plain,) = json.loads(found["cells.json"])["cells"]
    assert plain["method"] == method and plain["raw"] == 0.1 + 0.2
