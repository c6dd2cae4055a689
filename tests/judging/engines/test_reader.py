"""What the tools of a judge read: bounded, below the root, no link followed, total on any request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.content.tools import single_file
from ptb_tui.judging.engines import reader
from ptb_tui.judging.engines.desk import NAMES, call_in, in_text
from ptb_tui.judging.exhibits import TOOLS as SHOWN
from tests.judging.runs import ITEMS, TOOLS


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("reader")
    root = base / "evidence"
    (root / "task" / "deep").mkdir(parents=True)
    (base / "secret").write_text("a secret\n")
    (root / "task" / "train.py").write_text("first\nsecond (a+)\nthird\n" + "x" * 9000 + "\nlast\n")
    (root / "task" / "deep" / "data.bin").write_bytes(b"\0\1first")
    (root / "task" / "leaf").symlink_to(base / "secret")
    (root / "task" / "out").symlink_to(base)
    os.mkfifo(root / "task" / "pipe")
    (root / "test_data.json").write_text(json.dumps(ITEMS))
    (root / "task" / "data.jsonl").write_text("".join(json.dumps({"text": i["question"]}) + "\n" for i in ITEMS))
    (root / "tools").mkdir()
    for name in SHOWN:
        (root / "tools" / name).write_text(single_file(TOOLS / name))
    return root


def call(root: Path, tool: str, room: int = 24 << 10, **given: Any) -> tuple[bool, str]:
    found = reader.answer(str(root), {"id": 1, "tool": tool, "arguments": given, "bytes": room, "seconds": 60})
    return found["ok"], found["text"]


def test_list_and_read(root: Path) -> None:
    lines = call(root, "list", path="task")[1].splitlines()
    assert [line.split(" ")[:2] for line in lines] == [
        ["file", "task/data.jsonl"],
        ["folder", "task/deep"],
        ["link", "task/leaf"],
        ["link", "task/out"],
        ["special", "task/pipe"],
        ["file", "task/train.py"],
    ]
    assert "task/deep/data.bin" in call(root, "list", path="/evidence/task", depth=3)[1]
    done, text = call(root, "read", path="task/train.py", line=2, lines=2)
    assert done and text == "2: second (a+)\n3: third\n… goes on at line 4"
    assert "more characters" in call(root, "read", path="task/train.py", line=4)[1]
    assert call(root, "read", path="task/train.py", offset=6, length=6)[1].endswith("\nsecond")
    assert "5 lines" in call(root, "read", path="task/train.py", line=99)[1]


def test_grep(root: Path) -> None:
    assert call(root, "grep", pattern="(a+)", path="task")[1].startswith("task/train.py:2: second (a+)")
    assert "no match" in call(root, "grep", pattern="FIRST", path="task/train.py")[1]
    done, text = call(root, "grep", pattern="f.rst$", path="task", regex=True, ignore_case=True)
    assert done and "task/train.py:1" in text and "1 files that are no text" in text
    assert call(root, "grep", pattern="(", regex=True)[0] is False


@pytest.mark.parametrize(
    "path", ["../secret", "task/../../secret", "task/leaf", "task/out/secret", "task/pipe", "/etc/passwd", "no"]
)
def test_nothing_leads_outside(root: Path, path: str) -> None:
    for tool in ("read", "list", "grep"):
        done, text = call(root, tool, path=path, pattern="e")
        assert not done and "a secret" not in text and "root:" not in text
    assert call(root, "check_contamination", path=path)[0] is False


def test_the_checkers(root: Path) -> None:
    done, text = call(root, "check_contamination", path="task/data.jsonl", mode="strict")
    assert done and text.startswith("exit status 1") and "data.jsonl" in text
    assert "readable config" in call(root, "check_identity", model="org/m")[1]


def test_results_are_bounded(root: Path) -> None:
    for tool, path in (("read", "task/train.py"), ("check_contamination", "task"), ("list", "")):
        assert len(call(root, tool, room=600, path=path)[1].encode()) < 8000


def test_the_program_answers_line_by_line(root: Path) -> None:
    lines = [{"id": 7, "tool": "read", "arguments": {"path": "task/train.py"}, "bytes": 300}, [], "no"]
    given = "".join(json.dumps(line) + "\n" for line in lines) + "{\n"
    argv = [sys.executable, "-I", "-S", reader.__file__, str(root)]
    done = subprocess.run(argv, input=given.encode(), capture_output=True, timeout=60, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["ok"] for answer in answers] == [True, False, False, False] and answers[0]["id"] == 7


@settings(max_examples=60)
@given(
    st.sampled_from([*NAMES, "other"]),
    st.dictionaries(
        st.sampled_from(["path", "pattern", "line", "lines", "offset", "length", "depth", "regex", "mode", "model"]),
        st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.none(), st.floats(), st.lists(st.text())),
    ),
)
def test_any_request_has_an_answer(root: Path, tool: str, given_: dict[str, Any]) -> None:
    if tool in ("check_contamination", "check_identity"):
        given_["path"] = "no"
    done, text = call(root, tool, **given_)
    assert isinstance(done, bool) and isinstance(text, str)


@given(st.text())
def test_any_text_may_hold_a_call(text: str) -> None:
    call_in(text)
    assert call_in('{"tool": "read", "arguments": {"path": "a"}} ' + text) is not None


def test_calls_in_text() -> None:
    found = call_in('I look.\n<tool_call>{"name": "grep", "arguments": {"pattern": "x"}}</tool_call>')
    assert found is not None and (found.name, dict(found.arguments), found.wrong) == ("grep", {"pattern": "x"}, "")
    assert call_in('{"nonce": "1", "justification_x": "{\\"tool\\": \\"read\\"}"}') is None
    assert all(f"`{name}`" in in_text() for name in NAMES)


def test_what_was_not_read_in_time_is_said(root: Path) -> None:
    (root / "task").mkdir(exist_ok=True)
    (root / "task" / "long.txt").write_text("a line\n" * 100)
    assert "the time was up" in reader.do_read(str(root), {"path": "task/long.txt", "line": 90}, 4096, 0.0)
