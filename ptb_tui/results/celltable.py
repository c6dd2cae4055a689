"""The table of cells: what each is worth and why, one row a cell, as JSON and CSV, and as Parquet if asked."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from ptb_tui.core.errors import UsageError
from ptb_tui.core.scores import Board, CellScore
from ptb_tui.results.csvtext import csv_text

PARQUET = "cells.parquet"
COLUMNS = (
    "protocol", "policy", "method", "benchmark", "model", "raw", "used", "base", "status", "letters", "reason", "run",
    "run_id", "by", "stderr", "seconds", "cost_usd", "tokens", "origin", "fingerprint", "cli_version", "other_runs",
    "evidence",
)  # fmt: skip
_FORMULA = frozenset("=+-@\t\r")  # with which a text begins that a spreadsheet would compute


def values(board: Board, cell: CellScore) -> dict[str, Any]:
    """One row: `raw` is what was measured, `used` what counts, `status` what the run is worth, `evidence` the judges'
    findings in words. None is unknown."""
    return {
        "protocol": board.protocol,
        "policy": board.policy,
        "method": cell.method,
        "benchmark": cell.benchmark,
        "model": cell.model,
        "raw": cell.raw,
        "used": cell.used,
        "base": board.baselines.get(cell.model, {}).get(cell.benchmark),
        "status": str(cell.worth),
        "letters": cell.letters,
        "reason": cell.reason,
        "run": cell.run,
        "run_id": cell.run_id,
        "by": cell.by,
        "stderr": cell.stderr,
        "seconds": cell.seconds,
        "cost_usd": cell.cost_usd,
        "tokens": cell.tokens,
        "origin": cell.origin,
        "fingerprint": cell.fingerprint,
        "cli_version": cell.cli_version,
        "other_runs": cell.other_runs,
        "evidence": cell.evidence,
    }


def _line(row: Mapping[str, Any]) -> list[Any]:
    """A row for CSV: `csv` writes None as nothing, and a float so that it reads back as the same."""
    found = list(row.values())
    found[-2:] = [" | ".join(map(str, many)) if many else "" for many in found[-2:]]
    return ["'" + value if type(value) is str and value[:1] in _FORMULA else value for value in found]


def parquet(board: Board) -> bytes:
    """The table as Parquet. UsageError where pyarrow is not installed; it takes half a second and 60 MB to load."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError("Parquet needs the package pyarrow, which is not installed", hint="cells.csv has the same")
    import pyarrow
    import pyarrow.parquet

    text, real, whole = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
    types = dict.fromkeys(COLUMNS, text)
    types |= dict.fromkeys(("raw", "used", "base", "stderr", "seconds", "cost_usd"), real)
    types |= {"run_id": whole, "tokens": whole, "other_runs": pyarrow.list_(whole), "evidence": pyarrow.list_(text)}
    schema = pyarrow.schema([(name, types[name]) for name in COLUMNS])
    rows = [values(board, cell) for row in sorted(board.methods, key=lambda row: row.method) for cell in row.cells]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), buffer)
    return buffer.getvalue()


def tables(board: Board) -> dict[str, str | bytes]:
    """`cells.json` and `cells.csv`."""
    cells = [cell for row in sorted(board.methods, key=lambda row: row.method) for cell in row.cells]
    parts: list[bytes] = []
    lines: list[Sequence[Any]] = [COLUMNS]
    for cell in cells:
        row = values(board, cell)
        parts.append(to_json(row))
        lines.append(_line(row))
    return {
        "cells.json": b'{"v":1,"cells":[' + b",\n".join(parts) + b"]}\n",
        "cells.csv": csv_text(lines),
    }
