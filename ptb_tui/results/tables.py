"""The files of `<results>/_aggregated/`: the original's tables, and `board.json` with everything (E §5.5).

The original's tables know no empty cell: there, and only there, a cell without a value shows the base score.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

from ptb_tui.core import files
from ptb_tui.core.errors import StorageError
from ptb_tui.core.scores import Board, CellScore, MethodScore
from ptb_tui.results.regular import read_record, read_regular

FOLDER = "_aggregated"
_LIMIT = 64 << 20
_BUDGET_S = 36000  # the original's percentages are of ten hours, whatever the method's own budget


def _csv(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _short(model: str) -> str:
    return model.rpartition("/")[2]


def _grid(row: MethodScore) -> tuple[list[str], list[str], dict[tuple[str, str], CellScore]]:
    cells = {(_short(cell.model), cell.benchmark): cell for cell in row.cells}
    models = sorted({model for model, _ in cells})
    return models, sorted({benchmark for _, benchmark in cells}), cells


def final_table(board: Board, row: MethodScore) -> str:
    """`final_<method>.csv`: model × benchmark; used values, the base score where there is none."""
    models, benchmarks, cells = _grid(row)
    baselines = {_short(model): scores for model, scores in board.baselines.items()}

    def value(model: str, benchmark: str) -> str:
        cell = cells.get((model, benchmark))
        used = cell.used if cell is not None else None
        shown = used if used is not None else baselines.get(model, {}).get(benchmark)
        return "" if shown is None else repr(float(shown))

    rows = [[model, *(value(model, benchmark) for benchmark in benchmarks)] for model in models]
    return _csv([["model", *benchmarks], *rows])


def contamination_table(row: MethodScore) -> str:
    """`contamination_<method>.csv`: the same grid with the letters M, C, A."""
    models, benchmarks, cells = _grid(row)
    found = [[model, *(cells[model, benchmark].letters for benchmark in benchmarks)] for model in models]
    return _csv([["model", *benchmarks], *found])


def _time(row: MethodScore) -> tuple[str, str]:
    times = [cell.seconds for cell in row.cells if cell.raw is not None and cell.seconds is not None]
    if not times:
        return "N/A", "N/A"
    mean = int(sum(times) / len(times))
    return f"{mean // 3600}:{mean // 60 % 60:02d}:{mean % 60:02d}", f"{mean / _BUDGET_S * 100:.1f}%"


def time_table(board: Board) -> str:
    """`time_overview.csv`: mean time of the agent over evaluated runs, and its share of ten hours."""
    rows = sorted([row.method, *_time(row)] for row in board.methods)
    return _csv([["method", "average_time", "percentage"], *rows])


def tables(board: Board) -> dict[str, str]:
    """All files of a board by name, `board.json` last; the same board gives the same bytes."""
    found: dict[str, str] = {}
    for row in sorted(board.methods, key=lambda row: row.method):
        found[f"final_{row.method}.csv"] = final_table(board, row)
        found[f"contamination_{row.method}.csv"] = contamination_table(row)
    found["time_overview.csv"] = time_table(board)
    names = tuple(f"{FOLDER}/{name}" for name in (*found, "board.json"))
    found["board.json"] = board.model_copy(update={"files": names}).model_dump_json(indent=1) + "\n"
    return found


def _stale(folder: Path, current: dict[str, str]) -> list[str]:
    """Tables that an earlier board of ours wrote and this one does not have; nobody else's files."""
    old = read_record(folder / "board.json", _LIMIT) or {}
    listed = old.get("files")
    found = []
    for name in listed if isinstance(listed, list) else ():
        base = str(name).removeprefix(f"{FOLDER}/")
        ours = base.startswith(("final_", "contamination_")) and base.endswith(".csv")
        if ours and base not in current and base == os.path.basename(base):
            found.append(base)
    return found


def write_board(results: Path, board: Board) -> Board:
    """Write the tables below `<results>/_aggregated/` and return the board with their names in `files`.

    Every file is replaced as a whole, and left alone when it would not change. A method whose name makes a file name
    too long is a problem of the board; StorageError when the folder cannot be written.
    """
    folder = results / FOLDER
    files.ensure_writable(folder, "the folder for score tables")
    current = tables(board)
    written, problems = [], list(board.problems)
    for name in _stale(folder, current):
        (folder / name).unlink(missing_ok=True)
    for name, text in current.items():
        data = text.encode()
        try:
            if read_regular(folder / name, _LIMIT) != data:
                files.replace(folder / name, data)
        except OSError as error:
            if not name.startswith(("final_", "contamination_")):
                raise StorageError(f"{folder / name} cannot be written: {error.strerror}") from error
            problems.append(f"{name[:80]}… cannot be written: {error.strerror}")
            continue
        written.append(f"{FOLDER}/{name}")
    return board.model_copy(update={"files": tuple(written), "problems": tuple(problems)})
