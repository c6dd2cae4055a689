"""Rows of a downloaded file, one at a time: JSON Lines, a JSON array, CSV, Parquet, and the first three compressed.

Memory is bounded by one row (JSON arrays: by the file). A file that is not what its form says is a PtbError that names
file and place.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeAlias

from ptb_tui.core.errors import PtbError

MAX_LINE = 64 << 20
MAX_ARRAY = 256 << 20
Bytes: TypeAlias = "BufferedReader | gzip.GzipFile"
FORMS = ("jsonl", "json", "csv", "parquet")


class FormatError(PtbError):
    """A file is not in the form it should have."""

    title = "Not what it should be"


def form_of(name: str) -> str:
    """The form that a file's name tells; empty when it tells none."""
    suffix = Path(name.lower().removesuffix(".gz")).suffix.removeprefix(".")
    return suffix if suffix in FORMS and not (suffix == "parquet" and name.lower().endswith(".gz")) else ""


def rows(path: Path, form: str = "") -> Iterator[dict[str, Any]]:
    """The rows of a file. `form` is one of FORMS, else told by the name."""
    form = form or form_of(path.name)
    if form == "parquet":
        yield from _parquet(path)
        return
    if not form:
        raise FormatError(f"{path}: its name does not tell its form", hint=f"`format` in data.toml: {', '.join(FORMS)}")
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else open(path, "rb") as file:
            if form == "csv":
                yield from _csv(path, file)
            elif form == "json" and _begins_array(file):
                yield from _array(path, file)
            else:
                yield from _lines(path, file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"{path}: cannot be decompressed: {error}") from error


def _begins_array(file: Bytes) -> bool:
    """Whether a file called .json is one array; some are JSON Lines."""
    head = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    file.seek(0)
    return head[:1] != b"{"


def _object(path: Path, where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{path}: {where} is not a JSON object")
    return value


def _lines(path: Path, file: Bytes) -> Iterator[dict[str, Any]]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise FormatError(f"{path}: line {number} has more than {MAX_LINE:,} bytes")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}: line {number} is not JSON: {error}") from error
        yield _object(path, f"line {number}", value)


def _array(path: Path, file: Bytes) -> Iterator[dict[str, Any]]:
    text = file.read(MAX_ARRAY + 1)
    if len(text) > MAX_ARRAY:
        raise FormatError(f"{path}: more than {MAX_ARRAY:,} bytes in one JSON array")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON: {error}") from error
    if not isinstance(found, list):
        raise FormatError(f"{path}: not a JSON array")
    for number, value in enumerate(found, 1):
        yield _object(path, f"entry {number}", value)


def _text(path: Path, file: Bytes) -> Iterator[str]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise FormatError(f"{path}: line {number} has more than {MAX_LINE:,} bytes")
        try:
            yield (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: line {number} is not UTF-8") from error


def _csv(path: Path, file: Bytes) -> Iterator[dict[str, Any]]:
    reader = csv.DictReader(_text(path, file), strict=True)
    try:
        for row in reader:
            if None in row:
                raise FormatError(f"{path}: line {reader.line_num} has more columns than the first line")
            yield dict(row)
    except csv.Error as error:
        raise FormatError(f"{path}: line {reader.line_num}: {error}") from error


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        hint = "pip install 'ptb-tui[judge]', or fetch where it is installed and use --from; docs/tasks.md"
        raise FormatError(
            f"{path.name} is a Parquet file, and pyarrow, which reads it, is not here", hint=hint
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise FormatError(f"{path}: cannot be read as Parquet: {str(error)[:200]}") from error
