"""Disk that a step holds: files, files without a name, and folders that resist."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from ptb_tui.core import clock
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


def test_more_files_than_anybody_needs_are_more_than_any_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / f"d{number}").mkdir()
    monkeypatch.setattr(usage, "ENTRIES", 20)
    assert measured(tmp_path, [], monkeypatch) < MIB
    (tmp_path / "d0" / "one").touch()
    assert measured(tmp_path, [], monkeypatch) > 1 << 60


def test_the_next_measurement_comes_soon_however_long_one_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "FIRST_S", 0.0)
    found, now = usage.Usage(tmp_path), [clock.monotonic() + 1]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    found.poll([])
    now[0] += 600
    limit = time.monotonic() + 20
    while found.poll([]) is None:
        assert time.monotonic() < limit
        time.sleep(0.01)
    assert found._due - now[0] <= 120
    found.close()


def test_folders_that_their_owner_closed_count(tmp_path: Path) -> None:
    """As a user without rights, which whoever measures is."""
    words = [sys.executable]
    if os.geteuid() == 0:
        words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3"]
        if subprocess.run([*words, "-c", "open(__import__('sys').argv[1])", str(usage.WALK)], check=False).returncode:
            pytest.skip("a user without rights cannot read this repository")
    with tempfile.TemporaryDirectory(prefix="ptb-usage-", dir="/var/tmp") as name:
        top, outside = Path(name) / "top", Path(name) / "outside"
        for folder in (top / "none" / "below", top / "list", outside):
            folder.mkdir(parents=True)
            (folder / "file").write_bytes(os.urandom(MIB))
        (top / "link").symlink_to(outside)
        if os.geteuid() == 0:
            for path in (Path(name), *Path(name).rglob("*")):
                os.chown(path, 65534, 65534, follow_symlinks=False)
        for folder, mode in ((top / "none" / "below", 0), (top / "none", 0), (top / "list", 0o400), (outside, 0)):
            folder.chmod(mode)
        done = subprocess.run([*words, "-I", "-S", str(usage.WALK), str(top), "99"], capture_output=True, check=True)
        held, whole = done.stdout.split()
        assert whole == b"whole" and 2 * MIB <= int(held) < 3 * MIB, done
        assert stat.S_IMODE(outside.stat().st_mode) == 0, "no link is followed"
        outside.chmod(0o700)


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
