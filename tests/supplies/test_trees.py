"""Trees that never change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ptb_tui.core.errors import PtbError
from ptb_tui.supplies import trees


def make(base: Path, name: str = "tree") -> Path:
    tree = base / name
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "run").write_text("#!/bin/sh\n")
    (tree / "bin" / "run").chmod(0o755)
    (tree / "read me").write_text("words")
    (tree / "link").symlink_to("bin/run")
    return tree


def test_the_digest_is_of_what_is_in_it_and_not_of_when_or_where(tmp_path: Path) -> None:
    one, two = make(tmp_path, "one"), make(tmp_path, "two")
    os.utime(two / "read me", (1, 1))
    found = trees.seal(one)
    assert found == trees.seal(two)
    assert (found.files, found.bytes) == (2, 15)


@pytest.mark.parametrize("change", ["text", "mode", "link", "name", "folder"])
def test_the_digest_tells_every_change(tmp_path: Path, change: str) -> None:
    one, two = make(tmp_path, "one"), make(tmp_path, "two")
    if change == "text":
        (two / "read me").write_text("Words")
    elif change == "mode":
        (two / "bin" / "run").chmod(0o644)
    elif change == "link":
        (two / "link").unlink()
        (two / "link").symlink_to("read me")
    elif change == "name":
        (two / "read me").rename(two / "readme")
    else:
        (two / "empty").mkdir()
    assert trees.seal(one).digest != trees.seal(two).digest


def test_a_sealed_tree_cannot_be_written_but_moved_and_removed(tmp_path: Path) -> None:
    tree = make(tmp_path)
    trees.seal(tree)
    modes = {path.name: path.stat().st_mode & 0o222 for path in tree.rglob("*")}
    assert not any(modes.values())
    target = tmp_path / "store" / "x"
    assert trees.place(tree, target) and not tree.exists()
    assert target.stat().st_mode & 0o777 == 0o555
    again = make(tmp_path)
    trees.seal(again)
    assert not trees.place(again, target) and not again.exists(), "another was faster"
    trees.remove(target)
    assert not target.exists()


def test_links_are_made_relative_or_refused(tmp_path: Path) -> None:
    tree = make(tmp_path)
    (tree / "absolute").symlink_to(tree / "bin" / "run")
    trees.make_links_relative(tree)
    assert os.readlink(tree / "absolute") == "bin/run"
    (tree / "bin" / "out").symlink_to("../../elsewhere")
    with pytest.raises(PtbError, match=r"bin/out is a link to \.\./\.\./elsewhere, outside"):
        trees.make_links_relative(tree)


def test_odd_files_are_refused(tmp_path: Path) -> None:
    tree = make(tmp_path)
    os.mkfifo(tree / "pipe")
    with pytest.raises(PtbError, match="neither a file"):
        trees.seal(tree)
