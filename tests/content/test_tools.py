from pathlib import Path

import pytest

from ptb_tui.content.tools import single_file
from ptb_tui.core.errors import ContentError

SCRIPT = """\"\"\"A tool.\"\"\"

import sys

sys.path.insert(0, ".")

from parts.two import (
    twice,
)

print(twice(2))
"""
TWO = """\"\"\"Two.\"\"\"

from __future__ import annotations

from parts.one import one


def twice(x: int) -> int:
    return x * 2 * one()
"""
ONE = '"""One,\n\nand more."""\n\nimport sys\n\n\ndef one() -> int:\n    return 1\n'


def tool(folder: Path, **parts: str) -> Path:
    (folder / "parts").mkdir()
    for name, text in {"one": ONE, "two": TWO, **parts}.items():
        (folder / "parts" / f"{name}.py").write_text(text)
    (folder / "tool.py").write_text(SCRIPT)
    return folder / "tool.py"


def test_parts_come_in_the_order_of_their_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = single_file(tool(tmp_path))
    exec(compile(text, "tool", "exec"), {})
    assert capsys.readouterr().out == "4\n"
    assert text.index("def one") < text.index("def twice") < text.index("print(")
    assert text.startswith('"""A tool."""\n') and "# and more." in text
    assert "parts.one import" not in text and "sys.path" not in text and "__future__" not in text


def test_a_script_without_parts_is_itself(tmp_path: Path) -> None:
    path = tmp_path / "tool.py"
    path.write_text('import sys\nsys.path.insert(0, "x")\nfrom os.path import join\n')
    assert single_file(path) == path.read_text()


@pytest.mark.parametrize(("part", "words"), [
    ("def twice() -> int:\n    return 1\n\n\ndef one() -> int:\n    return 1\n", "both define twice"),
    ("from parts.two import twice\n", "imports itself"), ("def (", "no Python"),
    ("from parts.two import twice as t\n", "another"),
])  # fmt: skip
def test_parts_that_do_not_fit(tmp_path: Path, part: str, words: str) -> None:
    with pytest.raises(ContentError, match=words):
        single_file(tool(tmp_path, one=part))
