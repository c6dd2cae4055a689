"""What `make testbed` proves: the interpreter and its packages work for a normal user, in a host and in a container."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from tests.testbed import runtime
from tests.testbed.bed import Bed

IMPORTS = "import ctypes, hashlib, sqlite3, ssl, inspect_ai, ptb_tui, torch; print(torch.ones(2).sum().item())"
CONTAINER = ("apptainer", "-q", "exec", "--cleanenv", "--no-eval", "--contain", "--pid")


@pytest.mark.testbed
def test_a_normal_user_of_a_host_imports_everything(testbed: Bed) -> None:
    testbed.up("ws")
    assert testbed.output("ws", testbed.python, "-c", IMPORTS, timeout=300) == "2.0\n"
    assert testbed.output("ws", f"{testbed.runtime}/bin/ptb-tui", "version").startswith("ptb-tui")


@pytest.mark.apptainer
def test_a_normal_user_of_a_container_imports_everything(testbed: Bed) -> None:
    testbed.up("ws")
    binds = ("--bind", testbed.runtime, "--bind", testbed.product)
    command = (*CONTAINER, *binds, testbed.image, testbed.python, "-c", IMPORTS)
    assert testbed.output("ws", *command, timeout=300) == "2.0\n"


@pytest.mark.testbed
def test_a_host_cannot_change_the_runtime_or_the_product(testbed: Bed) -> None:
    testbed.up("ws")
    for folder in (testbed.runtime, f"{testbed.product}/ptb_tui"):
        done = testbed.run("ws", "touch", f"{folder}/new", user="root")
        assert "Read-only file system" in done.stderr


def test_on_another_file_system_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "module.py").write_text("x = 1\n")
    os.utime(tmp_path / "source" / "module.py", ns=(5, 5))
    monkeypatch.setattr(os, "link", refuse)
    runtime._copy(tmp_path / "source", tmp_path / "target", frozenset())
    made = tmp_path / "target" / "module.py"
    assert made.read_text() == "x = 1\n"
    assert made.stat().st_mtime_ns == 5


def test_files_are_linked_unless_others_may_not_read_them(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "package").mkdir(parents=True)
    (source / "skipped").mkdir()
    for name, mode in (("open.py", 0o644), ("closed.py", 0o600), ("program", 0o700)):
        (source / "package" / name).write_text(name)
        (source / "package" / name).chmod(mode)
    (source / "package" / "near").symlink_to("open.py")
    (source / "package" / "absolute").symlink_to(source / "package" / "open.py")
    (source / "package" / "gone").symlink_to("/nowhere/at/all")
    runtime._copy(source, tmp_path / "target", frozenset({"skipped"}))
    made = tmp_path / "target" / "package"
    assert sorted(path.name for path in made.iterdir()) == ["absolute", "closed.py", "near", "open.py", "program"]
    assert not (tmp_path / "target" / "skipped").exists()
    assert (made / "open.py").stat().st_ino == (source / "package" / "open.py").stat().st_ino
    assert os.readlink(made / "near") == "open.py"
    assert not (made / "absolute").is_symlink()
    modes = {name: stat.S_IMODE((made / name).stat().st_mode) for name in ("closed.py", "program")}
    assert modes == {"closed.py": 0o644, "program": 0o755}
    assert stat.S_IMODE((source / "package" / "closed.py").stat().st_mode) == 0o600
