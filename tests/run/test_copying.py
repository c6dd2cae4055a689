"""Copying an agent's tree: whatever lies there, the copy holds plain files within limits and says what it lacks."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.core.errors import StepError
from ptb_tui.run import copying
from ptb_tui.run.copying import Limits
from ptb_tui.run.erasing import erase

NAMES = st.sampled_from([b"a", b"b", b"c", b"new\nline", b"\xff\xfe", b"\x1b[2J", b"-rf", b"d" * 200])
KINDS = st.sampled_from(["file", "big", "hole", "folder", "link", "hard", "fifo", "dark"])
TARGETS = [b"a", b"../a", b"..", b"/", b"/etc/passwd", b"/home/ben/task/a", b"../../outside", b".", b"b/c", b"x" * 300]
PLAN = st.lists(st.tuples(NAMES, NAMES, KINDS, st.sampled_from(TARGETS)), max_size=25)


def plant(task: bytes, plan: list[tuple[bytes, bytes, str, bytes]]) -> None:
    """Make what the plan says as far as it can be made."""
    for folder, name, kind, target in plan:
        path = os.path.join(task, folder, name)
        with contextlib.suppress(OSError):
            if not os.path.lexists(os.path.join(task, folder)):
                os.mkdir(os.path.join(task, folder))
            if os.path.islink(os.path.join(task, folder)) or os.path.lexists(path):
                continue
            if kind == "folder":
                os.mkdir(path)
            elif kind == "link":
                os.symlink(target, path)
            elif kind == "hard":
                os.link(os.path.join(task, b"seed"), path)
            elif kind == "fifo":
                os.mkfifo(path)
            else:
                with open(path, "wb") as file:
                    file.write(name if kind != "big" else name * 3000)
                    file.truncate(1 << 33 if kind == "hole" else file.tell())
                os.chmod(path, 0 if kind == "dark" else 0o4777)


@settings(max_examples=80, deadline=None)
@given(PLAN, st.integers(1, 12), st.integers(1, 400_000))
def test_a_copy_is_plain_within_its_limits_and_complete(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[bytes, bytes, str, bytes]], most: int, size: int
) -> None:
    base = tmp_path_factory.mktemp("copy")
    root, outside = base / "home", base / "outside"
    (root / "task").mkdir(parents=True)
    outside.write_text("not the agent's")
    (root / "task" / "seed").write_bytes(b"s" * 5000)
    plant(os.fsencode(root / "task"), plan)
    limits = Limits(files=most, bytes=size, holes=1 << 20, repeats=12_000)
    for within in (None, "task"):
        target = base / f"copy-{within}"
        copied = copying.copy_tree(root, "task", target, limits, aliases=("/home/ben",), within=within)
        found = list(target.rglob("*"))
        files = [path for path in found if stat.S_ISREG(path.lstat().st_mode)]
        assert all(stat.S_ISREG(path.lstat().st_mode) or stat.S_ISDIR(path.lstat().st_mode) for path in found)
        assert not any(path.stat().st_mode & 0o7022 or path.stat().st_nlink > 1 for path in files)
        assert len(files) == len(copied.files) <= most
        assert sum(path.stat().st_size for path in files) == copied.bytes <= size
        assert not any(b"not the agent's" in path.read_bytes() for path in files)
        assert len(copied.left_out) == copied.left_out_count
    assert outside.read_text() == "not the agent's"
    assert erase(base)


def test_an_unfinished_copy_gives_its_room_back(tmp_path: Path) -> None:
    partial = tmp_path / "partial"
    partial.mkdir()
    (partial / "torn").write_text("x")
    with pytest.raises(StepError), copying.room_given_back(partial):
        raise StepError("no space", cause="disk_full")
    assert not partial.exists()
    partial.mkdir()
    with copying.room_given_back(partial):
        pass
    assert partial.exists()
