"""Disk that a step holds: files, files without a name, and folders that resist."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ptb_tui.run import usage

MIB = 1 << 20


def measured(folder: Path, roots: list[int], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(usage, "FIRST_S", 0.0)
    found = usage.Usage(folder)
    limit = time.monotonic() + 20
    while (size := found.poll(roots)) is None:
        assert time.monotonic() < limit
        time.sleep(0.01)
    found.close()
    return size


def test_files_of_odd_names_and_any_depth_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "-s top\n'ü'"
    top.mkdir()
    (top / "file").write_bytes(os.urandom(MIB))
    os.link(top / "file", top / "again")
    (top / "out").symlink_to("/")
    here = os.getcwd()
    try:
        os.chdir(top)
        for _ in range(200):
            os.mkdir("d" * 100)
            os.chdir("d" * 100)
        Path("deep").write_bytes(os.urandom(MIB))
    finally:
        os.chdir(here)
    size = measured(top, [], monkeypatch)
    assert 2 * MIB <= size < 4 * MIB
    from ptb_tui.run.erasing import erase

    assert erase(top)


def test_what_has_no_name_counts_while_somebody_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os, sys; f = open(sys.argv[1], 'wb'); f.write(os.urandom(3 << 20)); f.flush(); "
        "os.unlink(sys.argv[1]); print(flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "gone")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert measured(tmp_path, [os.getpid()], monkeypatch) >= 3 * MIB
        assert measured(tmp_path, [], monkeypatch) < MIB
        process.communicate()


def test_a_folder_that_went_is_no_error(tmp_path: Path) -> None:
    found = usage.Usage(tmp_path / "gone")
    assert found.poll([]) is None
    found.close()
    assert usage.deleted([999999999], tmp_path / "gone") == 0


def test_the_smallest_word_counts() -> None:
    assert usage.most_bytes({"scratch_gib": 2.0}, {"scratch_gib": 1}) == 1 << 30
    assert usage.most_bytes({"scratch_gib": None}, {}) == usage.most_bytes({"scratch_gib": "x"}, {}) == 0
