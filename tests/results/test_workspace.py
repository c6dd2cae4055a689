from __future__ import annotations

import os
from pathlib import Path

from ptb_tui.results import workspace
from ptb_tui.results.workspace import MAX_FILE, LeftOut, texts


def found(folder: Path) -> tuple[dict[str, bytes], dict[str, int]]:
    left = LeftOut()
    return dict(texts(folder, left)), left.counts


def test_texts_and_nothing_else(tmp_path: Path) -> None:
    task = tmp_path / "task"
    (task / "src" / "deep").mkdir(parents=True)
    (task / "train.py").write_bytes(b"print(1)\r\nprint(2)\r")
    (task / "src" / "deep" / "notes.md").write_text("only ASCII\n")
    (task / "empty").write_bytes(b"")
    for name in ("final_model", "__pycache__", "wandb"):
        (task / name).mkdir()
        (task / name / "a.txt").write_text("x")
    (task / "model.SAFETENSORS").write_text("x")
    (task / "nul.txt").write_bytes(b"a\0b")
    (task / "latin.txt").write_bytes(b"caf\xe9 and more text that is long enough to be mostly plain")
    (task / "greek.txt").write_text("αβγδεζηθ")
    (task / "large.txt").write_bytes(b"x" * (MAX_FILE + 1))
    (task / "link.txt").symlink_to("/etc/passwd")
    (task / "linked").symlink_to("/etc")
    os.mkfifo(task / "pipe.txt")
    (task / "odd\nname.txt").write_text("x")
    texts_found, left = found(task)
    assert texts_found == {
        "train.py": b"print(1)\nprint(2)\n", "src/deep/notes.md": b"only ASCII\n", "empty": b"",
    }  # fmt: skip
    assert left == {
        "folder of models or caches": 3, "kind of file": 1, "binary": 1, "not UTF-8": 1, "mostly not ASCII": 1,
        "larger than 2 MiB": 1, "link or special file": 3, "name cannot be printed": 1,
    }  # fmt: skip


def test_a_folder_that_is_a_link_or_absent(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("x")
    (tmp_path / "task").symlink_to(tmp_path / "real")
    assert found(tmp_path / "task") == ({}, {}) == found(tmp_path / "absent")


def test_numbers_are_bounded(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("x")
    before, workspace.MAX_FILES = workspace.MAX_FILES, 3
    try:
        names, left = found(tmp_path)
    finally:
        workspace.MAX_FILES = before
    assert len(names) == 3 and left == {"too many": 2}


def test_a_deep_tree(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("deep", dir_fd=fd)
        inner = os.open("deep", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    names, left = found(tmp_path)
    assert names == {} and set(left) <= {"cannot be read"}
