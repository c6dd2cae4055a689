"""Files that are complete or absent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptb_tui.core import files
from ptb_tui.core.errors import StorageError


def test_exactly_one_creates(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ptb_tui.core import files;"
        "print(files.create(Path(sys.argv[1]), sys.argv[2]))"
    )
    makers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "token"), str(n)], stdout=subprocess.PIPE)
        for n in range(6)
    ]
    answers = [maker.communicate(timeout=60)[0].decode().strip() for maker in makers]
    assert sorted(answers) == ["False"] * 5 + ["True"]
    assert (tmp_path / "token").read_text() == str(answers.index("True"))
    assert os.listdir(tmp_path) == ["token"]


def test_reading_what_is_not_a_plain_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "big").write_bytes(b"x" * 101)
    (tmp_path / "deep").write_text("[" * 200_000)
    (tmp_path / "list").write_text("[]")
    before = len(os.listdir("/proc/self/fd"))
    for name in ("folder", "link", "fifo", "big", "none"):
        assert files.read_bytes(tmp_path / name, 100) is None
    assert files.read_json(tmp_path / "deep") is None and files.read_object(tmp_path / "list") is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_replace_leaves_the_old_content_when_it_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(TypeError):
        files.replace(tmp_path / "file", None)  # type: ignore[arg-type]
    files.replace(tmp_path / "file", "new", mode=0o600)
    assert (tmp_path / "file").read_text() == "new" and (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=str(tmp_path / "file")):
        files.ensure_writable(tmp_path / "file" / "results", "the results root")
