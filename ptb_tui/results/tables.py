"""The files of `<results>/_aggregated/`: the original's tables, the table of cells, and `board.json` with everything.

The original's tables know no empty cell: there, and only there, a cell without a value shows the base score (E §5.5).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ptb_tui.core import files
from ptb_tui.core.errors import StorageError
from ptb_tui.core.scores import Board, CellScore, MethodScore
from ptb_tui.results import aggregates, celltable
from ptb_tui.results.csvtext import clock, csv_text
from ptb_tui.results.regular import read_record, read_regular

FOLDER = "_aggregated"
_LIMIT = 256 << 20
_BUDGET_S = 36000  # the original's percentages are of ten hours, whatever the method's own budget
_OF_METHODS = ("final_", "contamination_", "aggregated_avg_", "aggregated_std_")
_SOMETIMES = ("single_metrics_aggregated.csv", "time_aggregated.csv", celltable.PARQUET)


def _short(model: str) -> str:
    return model.rpartition("/")[2]


def grid(board: Board, row: MethodScore) -> tuple[list[str], list[str], dict[tuple[str, str], CellScore]]:
    """(models, tasks, cells) of a method's tables, sorted. Under `upstream` only what the method has runs of."""
    cells = {(_short(cell.model), cell.benchmark): cell for cell in row.cells}
    if board.policy != "upstream":
        return sorted({model for model, _ in cells}), sorted({benchmark for _, benchmark in cells}), cells
    seen = [key for key, cell in cells.items() if cell.run_id is not None]
    return sorted({model for model, _ in seen}), sorted({benchmark for _, benchmark in seen}), cells


def values(board: Board, row: MethodScore) -> aggregates.Grid:
    """The numbers of `final_<method>.csv`: used values, the base score where there is none."""
    models, benchmarks, cells = grid(board, row)
    baselines = {_short(model): scores for model, scores in board.baselines.items()}

    def value(model: str, benchmark: str) -> float | None:
        used = cells[model, benchmark].used
        return used if used is not None else baselines.get(model, {}).get(benchmark)

    return {model: {benchmark: value(model, benchmark) for benchmark in benchmarks} for model in models}


def contamination_table(board: Board, row: MethodScore) -> str:
    """`contamination_<method>.csv`: the same grid with the letters M, C, A."""
    models, benchmarks, cells = grid(board, row)
    found = [[model, *(cells[model, benchmark].letters for benchmark in benchmarks)] for model in models]
    return csv_text([["model", *benchmarks], *found])


def _time(row: MethodScore) -> tuple[str, str]:
    if row.seconds is None:
        return "N/A", "N/A"
    seconds = int(row.seconds)
    return clock(seconds), f"{seconds / _BUDGET_S * 100:.1f}%"


def time_table(board: Board) -> str:
    """`time_overview.csv`: mean time of the agent over evaluated runs, and its share of ten hours."""
    rows = sorted([row.method, *_time(row)] for row in board.methods if not row.withheld)
    return csv_text([["method", "average_time", "percentage"], *rows])


def tables(board: Board, parquet: bool = False) -> dict[str, str | bytes]:
    """All files of a board by name but for `board.json`; the same board gives the same bytes."""
    found: dict[str, str | bytes] = {}
    numbers: dict[str, aggregates.Grid] = {}
    for row in sorted(board.methods, key=lambda row: row.method):
        if not row.withheld:
            numbers[row.method] = values(board, row)
            found[f"final_{row.method}.csv"] = aggregates.grid_text(numbers[row.method])
            found[f"contamination_{row.method}.csv"] = contamination_table(board, row)
    found["time_overview.csv"] = time_table(board)
    found |= aggregates.tables(board, numbers)
    found |= celltable.tables(board)
    if parquet:
        found[celltable.PARQUET] = celltable.parquet(board)
    return found


def _stale(folder: Path, prefix: str, current: Mapping[str, object], board: Board) -> list[str]:
    """Tables that an earlier board of ours wrote and this one does not have, and those of methods whose tables are
    withheld; nobody else's files."""
    found = [f"{kind}{row.method}.csv" for row in board.methods if row.withheld for kind in _OF_METHODS[:2]]
    known = [
        name
        for name in os.listdir(folder)
        if name not in current and ((name.startswith(_OF_METHODS) and name.endswith(".csv")) or name in _SOMETIMES)
    ]
    if known:
        listed = (read_record(folder / "board.json", _LIMIT) or {}).get("files")
        ours = {str(name) for name in listed} if isinstance(listed, list) else set()
        found += [name for name in known if f"{prefix}{name}" in ours]
    return [base for base in dict.fromkeys(found) if base not in current]


def names_of(board: Board, prefix: str = f"{FOLDER}/", parquet: bool = False) -> tuple[str, ...]:
    """The files that `write_board` would write."""
    return tuple(f"{prefix}{name}" for name in (*tables(board, parquet), "board.json"))


def write_board(results: Path, board: Board, out: Path | None = None, *, parquet: bool = False) -> Board:
    """Write the tables below `<results>/_aggregated/`, or to `out`, and return the board with their names in `files`.

    Every file is replaced as a whole, and left alone when it would not change. A method whose name makes a file name
    too long is a problem of the board; StorageError when the folder cannot be written.
    """
    folder, prefix = (out, f"{out}/") if out is not None else (results / FOLDER, f"{FOLDER}/")
    files.ensure_writable(folder, "the folder for score tables", "--out")
    current = tables(board, parquet)
    names = tuple(f"{prefix}{name}" for name in (*current, "board.json"))
    problems, written = list(board.problems), []
    for name in _stale(folder, prefix, current, board):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            problems.append(f"{name[:80]} is out of date and cannot be removed: {error.strerror}")
    current["board.json"] = board.model_copy(update={"files": names}).model_dump_json() + "\n"
    for name, text in current.items():
        data = text.encode() if isinstance(text, str) else text
        try:
            if read_regular(folder / name, _LIMIT) != data:
                files.replace(folder / name, data, durable=False)
        except OSError as error:
            if not name.startswith(_OF_METHODS):
                raise StorageError(f"{folder / name} cannot be written: {error.strerror}") from error
            problems.append(f"{name[:80]}… cannot be written: {error.strerror}")
            continue
        written.append(f"{prefix}{name}")
    return board.model_copy(update={"files": tuple(written), "problems": tuple(problems)})
