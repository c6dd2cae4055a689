"""The shape of the tree: layers, sizes of modules, and words that must not be published."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
MODULES = sorted((REPOSITORY / "ptb_tui").rglob("*.py"))
LONGEST = 400
# Put together here, so that this file does not hold them.
FORBIDDEN = tuple(
    "".join(parts) for parts in (("/wo", "rk/"), ("../sh", "ared"), ("py", "pi.org"), ("pythonhos", "ted"))
)


def _tracked() -> list[Path]:
    if not (REPOSITORY / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    command = ("git", "-c", f"safe.directory={REPOSITORY}", "ls-files", "-z", "--cached", "--others")
    listing = subprocess.run(
        (*command, "--exclude-standard"), cwd=REPOSITORY, capture_output=True, check=True, timeout=60
    )
    paths = [REPOSITORY / name.decode() for name in listing.stdout.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


def test_layers_are_kept() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    if not tool.exists():
        pytest.skip("import-linter is not installed")
    answer = subprocess.run((tool, "--no-cache"), cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(REPOSITORY / "ptb_tui")))
def test_a_module_holds_one_idea(path: Path) -> None:
    text = path.read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    lines = text.count("\n")
    assert lines <= LONGEST or f"{LONGEST} lines" in docstring, f"{lines} lines, and no reason in the docstring"


def test_nothing_private_is_published() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}: {word}"
        for path in _tracked()
        for word in FORBIDDEN
        if word.encode() in path.read_bytes()
    ]
    assert not found, found
