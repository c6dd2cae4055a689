"""Rows out of files of every form, the files of a configuration and split, and the lock."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.core.errors import ConfigError
from ptb_tui.supplies import datarows
from ptb_tui.supplies.datacard import NoSuchFiles, files_of, front_matter, matches, named
from ptb_tui.supplies.datalock import NAME, Lock, Pin, read_lock

ROWS = [{"a": "1", "b": 'x, "y"\nz'}, {"a": "é", "b": ""}]
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def read(path: Path, data: bytes, form: str = "") -> list[dict[str, Any]]:
    path.write_bytes(data)
    return list(datarows.rows(path, form))


def test_every_form_gives_the_same_rows(tmp_path: Path) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["a", "b"])
    writer.writeheader()
    writer.writerows(ROWS)
    assert read(tmp_path / "x.csv", b"\xef\xbb\xbf" + text.getvalue().encode()) == ROWS
    assert read(tmp_path / "x.jsonl", b"\xef\xbb\xbf" + JSONL + b"\n") == ROWS
    assert read(tmp_path / "x.json", JSONL) == ROWS, "JSON Lines under another name"
    assert read(tmp_path / "x.json", b" " + json.dumps(ROWS).encode()) == ROWS
    assert read(tmp_path / "x.jsonl.gz", gzip.compress(JSONL)) == ROWS
    assert read(tmp_path / "any", JSONL, "jsonl") == ROWS


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS * 1000), tmp_path / "x.parquet")
    assert list(datarows.rows(tmp_path / "x.parquet")) == ROWS * 1000
    with pytest.raises(datarows.FormatError, match="cannot be read as Parquet"):
        read(tmp_path / "y.parquet", b"PAR1")


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(datarows.FormatError) as error:
        read(tmp_path / "x.parquet", b"")
    assert "pyarrow" in error.value.message and "ptb-tui[judge]" in error.value.hint


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.jsonl", b"{}\n[]\n", "line 2 is not a JSON object"),
        ("x.jsonl", b"{}\n{", "line 2 is not JSON"),
        ("x.jsonl", b"[" * 100_000, "line 1 is not JSON"),
        ("x.json", b"[1]", "entry 1 is not a JSON object"),
        ("x.json", b"3", "not a JSON array"),
        ("x.csv", b"a,b\n1,2,3\n", "more columns"),
        ("x.csv", b'a\n"1', "unexpected end of data"),
        ("x.csv", b"a\n\xff\n", "not UTF-8"),
        ("x.jsonl.gz", b"{}", "cannot be decompressed"),
        ("x.jsonl.gz", gzip.compress(JSONL, mtime=0)[:20], "cannot be decompressed"),
        ("x.txt", b"", "does not tell its form"),
    ],
)
def test_what_is_not_in_its_form_is_said(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    with pytest.raises(datarows.FormatError, match=words):
        read(tmp_path / name, data)


CARD = """---
license: mit
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: "main/test-*"
- config_name: flat
  data_files: flat.csv
- config_name: lists
  data_dir: deep
  data_files:
    test: ["a.jsonl", b.jsonl]   # two
dataset_info:
- config_name: main
  features:
  - name: question
    dtype: string
words: >
  several lines: of
  - text
---
# configs:
"""
FILES = ("README.md", "main/train-0.parquet", "main/test-0.parquet", "main/test-1.parquet", "flat.csv", "deep/a.jsonl",
         "deep/b.jsonl", ".hidden/test.jsonl", "dataset_infos.json")  # fmt: skip


def test_the_card_says_which_files() -> None:
    assert files_of(FILES, CARD, "main", "test") == ["main/test-0.parquet", "main/test-1.parquet"]
    assert files_of(FILES, CARD, "flat", "train") == ["flat.csv"]
    assert files_of(FILES, CARD, "lists", "test") == ["deep/a.jsonl", "deep/b.jsonl"]
    with pytest.raises(NoSuchFiles, match="no split 'dev' of 'main', but train, test"):
        files_of(FILES, CARD, "main", "dev")
    with pytest.raises(NoSuchFiles, match="split 'test'"):
        files_of(FILES, CARD, "flat", "test")


def test_without_a_card_the_names_say_it() -> None:
    assert files_of(("test.jsonl", "README.md"), "", "default", "test") == ["test.jsonl"]
    assert files_of(FILES, "", "main", "test") == ["main/test-0.parquet", "main/test-1.parquet"]
    assert files_of(("all.jsonl",), "", "default", "train") == ["all.jsonl"]
    assert files_of(("gpqa_main.csv", "gpqa_mainly.csv"), "", "gpqa_main", "train") == ["gpqa_main.csv"]
    with pytest.raises(NoSuchFiles, match="it has latest"):
        files_of(("latest.jsonl",), "", "default", "test")
    with pytest.raises(NoSuchFiles, match="several forms"):
        files_of(("test.jsonl", "test.csv"), "", "default", "test")
    with pytest.raises(NoSuchFiles, match="no data files"):
        files_of((), "", "default", "test")
    assert named(FILES, ("deep/*", "flat.csv", "deep/a.jsonl")) == ["deep/a.jsonl", "deep/b.jsonl", "flat.csv"]
    with pytest.raises(NoSuchFiles, match="no file x"):
        named(FILES, ("x",))
    assert matches("a/b/c.x", "**/*.x") and matches("c.x", "**/*.x") and not matches("a/c.x", "*.x")


@given(st.text(alphabet="-: \n[]{}\"'#abc>|", max_size=200))
def test_any_card_is_read_or_says_nothing(text: str) -> None:
    assert isinstance(front_matter(f"---\n{text}\n---\n"), dict)
    assert isinstance(front_matter(text), dict)


PINS = st.lists(
    st.tuples(
        *[st.text(max_size=12)] * 3, st.dictionaries(st.text(min_size=1, max_size=9), st.text(max_size=9), max_size=3)
    ),
    max_size=4,
)


@settings(max_examples=30, deadline=None)
@given(pins=PINS)
def test_a_lock_is_read_as_it_was_written(
    pins: list[tuple[str, str, str, dict[str, str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lock")
    lock = Lock(folder / NAME)
    for pin in pins:
        lock.add(Pin(*pin))
    lock.write()
    assert read_lock(folder).pins == lock.pins


def test_files_of_the_same_revision_are_kept_together(tmp_path: Path) -> None:
    lock = read_lock(tmp_path)
    lock.add(Pin("a", "", "1", {"x": "1"}))
    lock.add(Pin("a", "", "1", {"y": "2"}))
    assert lock.pins["a", ""].files == {"x": "1", "y": "2"}
    lock.add(Pin("a", "", "2", {"y": "3"}))
    assert lock.pins["a", ""].files == {"y": "3"}
    for text in (
        "sources = 1",
        "[[sources]]\nwhere = 3\n",
        "[[sources",
        '[[sources]]\nwhere="a"\nasked=""\nrevision=""\nfiles=1\n',
    ):
        (tmp_path / NAME).write_text(text)
        with pytest.raises(ConfigError) as error:
            read_lock(tmp_path)
        assert NAME in error.value.message and error.value.hint
