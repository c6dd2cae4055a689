"""What is like a test item without being a copy, and inputs of every kind, in one process and in several."""

import bz2
import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.content.tools import single_file
from tests.judges.tools import DATA, TOOLS, load, run

checker = load("contamination_check")
ITEMS: list[dict[str, str]] = json.loads((DATA / "conformance_contamination.json").read_text())["references"]
QUESTION = ITEMS[0]["question"]
CODE = '''def rolling(values: list, width: int = 3) -> list:
    """Means of the last few values."""
    result = []
    for place in range(len(values)):
        part = values[max(0, place - width + 1): place + 1]
        total = sum(part)
        result.append(total / len(part))
    return result
'''
REWRITTEN = """
import math

class Any:
  def averages( xs, n=3 ):   # another name, another layout
      out = [ ]
      for i in range( len(xs) ):

          window = xs[ max(0, i - n + 1) : i + 1 ]
          s = sum(window)
          out.append(s / len(window))
      return out
"""
index = checker.StrictIndex(
    [*ITEMS, {"question": CODE.split("    result")[0], "answer": CODE.split('values."""\n')[1]}]
)


def kinds(value: object) -> dict[int, str]:
    return {match["ref_index"]: match["kind"] for match in index.search(checker.record(value, 1))}


def test_the_reference_finds_itself() -> None:
    assert index.self_test() == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (QUESTION, "copy"),
        (QUESTION.replace("37", "52").replace("five days", "nine days"), "numbers"),
        (QUESTION.replace("37", "37.5"), "numbers"),
        (QUESTION.replace("A baker", "Some cook").replace("does the baker collect", "is that altogether"), "near"),
        (QUESTION.replace("cinnamon", "poppy").replace("rolls", "buns", 1), "near"),
        ("Old text. " * 300 + QUESTION.replace("three dollars", "12 dollars") + " Old text." * 300, "numbers"),
    ],
)
def test_manners_of_likeness(text: str, kind: str) -> None:
    assert kinds({"x": text}) == {0: kind}
    half = text.index(" ", len(text) // 2)
    assert kinds([{"parts": [text[:half], {"more": text[half:]}]}]) == {0: kind} or kind == "copy"


def test_half_of_an_item_is_nothing() -> None:
    words = QUESTION.split()
    assert kinds(" ".join(words[: len(words) // 2])) == {}
    assert kinds(" ".join(random.Random(1).sample(words, len(words)))) == {}


def test_a_template_of_the_reference_may_be_used() -> None:
    items = [{"question": f"A farmer has {n} sheep and {n + 9} goats in the old barn by the river and sells all "
                          f"goats to a friend. How many are left?", "answer": str(n)} for n in range(5)]  # fmt: skip
    templates = checker.StrictIndex(items)
    assert templates.self_test() == []
    assert templates.search(checker.record(items[0]["question"].replace("0 sheep", "77 sheep"), 1)) == []
    alone = checker.StrictIndex(items[:2])
    assert alone.search(checker.record(items[0]["question"].replace("0 sheep", "77 sheep"), 1))


@pytest.mark.parametrize("text", [REWRITTEN, f"Look:\n```python\n{REWRITTEN}```\n", CODE])
def test_code_under_other_names(text: str) -> None:
    assert kinds({"solution": text}).get(5) in ("code", "copy")
    lines = list(checker.text_blocks((n, line + "\n") for n, line in enumerate(text.split("\n"), 1)))
    (match,) = [match for match in index.search(lines[0]) if match["ref_index"] == 5]
    first = next(n for n, line in enumerate(text.split("\n"), 1) if "def " in line)
    assert match["line"] == first or match["kind"] == "copy"


@pytest.mark.parametrize("text", [
    REWRITTEN.replace("- n + 1", "- n"), "def f(x):\n    return x + 1\n", "def f(" + "(" * 5000, "def f():\n" + " " * 9,
    "def f(x):\n\treturn [" + "[" * 500, "\0def f(x): pass", "def a(x):\n    return 1\n" * 3000,
])  # fmt: skip
def test_other_code(text: str) -> None:
    assert kinds({"solution": text}) == {}


def test_packed_and_columnar_files(tmp_path: Path) -> None:
    (tmp_path / "ref.json").write_text(json.dumps(ITEMS))
    line = json.dumps({"prompt": QUESTION, "completion": "?"}).encode() + b"\n"
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl.bz2").write_bytes(bz2.compress(b'{"x": 1}\n' + line))
    (folder / "b.parquet.gz").write_bytes(b"?")
    expected = {"a.jsonl.bz2": "line:2"}
    not_scanned = ["b.parquet.gz"]
    try:
        import zstandard

        (folder / "c.jsonl.zst").write_bytes(zstandard.compress(line) + zstandard.compress(line))
        (folder / "d.zst").write_bytes(b"broken")
        expected["c.jsonl.zst"] = "line:1"
        not_scanned.append("d.zst")
    except ImportError:
        (folder / "c.jsonl.zst").write_bytes(b"")
        not_scanned.append("c.jsonl.zst")
    try:
        import pyarrow
        import pyarrow.ipc

        table = pyarrow.table({"messages": [[{"content": "fine"}], [{"content": QUESTION}]]})
        for name, kind in (("e.arrow", pyarrow.ipc.new_file), ("f.arrow", pyarrow.ipc.new_stream)):
            with kind(str(folder / name), table.schema) as writer:
                writer.write_table(table)
            expected[name] = "line:2"
    except ImportError:
        pass
    done = run("contamination_check", "-r", tmp_path / "ref.json", "-i", folder)
    found = [json.loads(shown) for shown in done.stdout.splitlines()]
    assert expected.items() <= {Path(each["file"]).name: each["source"] for each in reversed(found)}.items()
    assert all(name in done.stderr for name in not_scanned)


def test_lines_are_those_of_the_file_in_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.dumps({"text": f"line {n} " + "word " * (n % 50)}) for n in range(3000)]
    wanted = [1, 77, 1500, 2222, 3000]
    for number in wanted:
        lines[number - 1] = json.dumps({"messages": [{"role": "user", "content": QUESTION}]})
    lines[10], lines[11], lines[12] = '{"torn', "", '"a"], ["b"'
    lines[1499] = '{"x": "' + "y" * (5 << 18) + '", "q": ' + json.dumps(QUESTION) + "}"
    path = tmp_path / "train.jsonl"
    path.write_text("\ufeff" + "\n".join(lines))
    small = path.stat().st_size
    for chunk, jobs, least in ((1 << 16, 2, 0), (5_003, 1, small), (1 << 30, 1, small)):
        monkeypatch.setattr(checker, "CHUNK", chunk)
        monkeypatch.setattr(checker, "SMALL", least)
        before, found, documents = 0, [], 0
        for _, each in checker.search_all(index, checker.pieces(str(path), 1 << 40), 1 << 40, jobs):
            found += [line + before for line, _ in each.hits]
            before += each.lines
            documents += each.documents
        assert (found, before) == (wanted, 3000), chunk
    part = list(checker.pieces(str(path), 1 << 10))
    assert checker.search_piece(index, part[0], 1 << 10).not_scanned == [
        (str(path), "only its first 0 MB were scanned")
    ]


def test_the_single_file_works_anywhere(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(single_file(TOOLS / "contamination_check.py"))
    (tmp_path / "ref.json").write_text(json.dumps(ITEMS))
    argv: list[Any] = [
        sys.executable,
        "-I",
        tmp_path / "check.py",
        "-r",
        tmp_path / "ref.json",
        "-i",
        tmp_path / "ref.json",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stdout.splitlines())) == (1, len(ITEMS))
    text = (tmp_path / "check.py").read_text()
    assert "from contamination" not in text and "sys.path" not in text and text.count("from __future__") == 1


def test_no_process_outlives_a_killed_command(tmp_path: Path) -> None:
    """Whoever reads its output would wait for ever."""
    (tmp_path / "ref.json").write_text(json.dumps(ITEMS))
    hits = (json.dumps({"text": QUESTION}) + "\n") * 100
    (tmp_path / "big.jsonl").write_text(hits + (json.dumps({"text": "filler " * 200}) + "\n") * 20_000)
    argv: list[Any] = [sys.executable, TOOLS / "contamination_check.py", "--jobs", "2", "-r", tmp_path / "ref.json"]
    with subprocess.Popen(
        [*argv, "-i", tmp_path / "big.jsonl"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None and child.stdout.readline(), "it has begun"
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=60)
