"""The sources of every task with invented rows, laid out as the hub and the addresses have them, and task folders whose
counts, rows and addresses fit."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

from tests.supplies.fakehub import FakeHub

REPOSITORY = Path(__file__).parents[2]
TASKS = ("aime2025", "aime2026", "arenahardwriting", "bfcl", "gpqamain", "gsm8k", "healthbench", "humaneval")
HEALTH = "/simple-evals/healthbench/2025_oss_eval.jsonl"
COMMITS = {
    "math-ai/aime25": "563bb8404243c5f09de6ec262f2db674fe5bce9b",
    "math-ai/aime26": "79037aebdb6580008fb960d17cb21fd3099083e3",
    "gorilla-llm/Berkeley-Function-Calling-Leaderboard": "1bf8bbc3c0e35d04d00339c223a3fd653aa195ac",
    "openai/gsm8k": "cc7b047b6e5bb11b4f1af84efc572db110a51b3c",
    "openai/openai_humaneval": "7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
}
SPLITS = """---
license: mit
configs:
- config_name: {config}
  default: true
  data_files:
  - split: train
    path: {config}/train-*
  - split: test
    path: {config}/test-*
---
# Invented
"""


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(rows: list[dict[str, Any]]) -> tuple[str, bytes]:
    """(suffix, content): Parquet where it can be written, else JSON Lines."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return "jsonl", lines(rows)
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), out)
    return "parquet", out.getvalue()


def sums(n: int) -> list[dict[str, Any]]:
    return [{"id": str(i), "problem": f"What is {i} + 40?", "answer": str(i + 40)} for i in range(n)]


def words(n: int) -> list[dict[str, Any]]:
    return [{"question": f"{i} apples and 1?", "answer": f"Count to {i}.\n#### {i + 1}"} for i in range(n)]


def letters(n: int, version: str) -> list[dict[str, Any]]:
    kinds = ("creative_writing", "hard_prompt")
    return [{"uid": f"{version}-{i}", "category": kinds[i % 2], "prompt": f"Write {i}."} for i in range(n)]


def patients(n: int) -> list[dict[str, Any]]:
    """Every third one is easy; one id comes twice."""
    found = []
    for i in range(n):
        turns = [{"role": "user", "content": f"It hurts {i}."}] * (5 if i % 3 == 0 else 1)
        rubrics = [{"criterion": "Rest.", "points": 5, "tags": ["axis:completeness", "level:example"]}]
        found.append({"prompt_id": f"p{i}", "prompt": turns, "rubrics": rubrics, "example_tags": ["theme:feet"]})
    return [*found, found[1]]


def fill(hub: FakeHub) -> None:
    """All sources."""
    hub.dataset("math-ai/aime25", {"README.md": b"# no front matter", "test.jsonl": lines(sums(3))})
    hub.dataset("math-ai/aime26", {"data/test-00000-of-00001.jsonl": lines(sums(4))})
    calls = [
        {"id": f"exec_{i}", "question": [[{"role": "user", "content": f"Add {i}."}]], "function": [{"name": "add"}],
         "ground_truth": [f"add(a={i})"]}
        for i in range(3)
    ]  # fmt: skip
    files = {"README.md": b"x", "BFCL_v3_exec_simple.json": lines(calls), "BFCL_v3_simple.json": b"{}"}
    hub.dataset("gorilla-llm/Berkeley-Function-Calling-Leaderboard", files)
    suffix, train = table(words(7500))
    _, test = table(words(20))
    card = SPLITS.format(config="main").encode()
    files = {f"main/{name}-00000-of-00001.{suffix}": data for name, data in (("train", train), ("test", test))}
    hub.dataset("openai/gsm8k", {"README.md": card, **files, "socratic/test-00000-of-00001.jsonl": b"{}"})
    suffix, code = table(
        [{"task_id": f"HumanEval/{i}", "prompt": f"def f{i}():\n", "canonical_solution": "    return 1\n",
          "test": "def check(f):\n    assert f()\n", "entry_point": f"f{i}"} for i in range(3)]
    )  # fmt: skip
    card = SPLITS.format(config="openai_humaneval").encode()
    hub.dataset("openai/openai_humaneval", {"README.md": card, f"openai_humaneval/test-00000-of-00001.{suffix}": code})
    text = io.StringIO()
    choices = ["Correct Answer", *(f"Incorrect Answer {i}" for i in (1, 2, 3))]
    writer = csv.DictWriter(text, ["Record ID", "Question", *choices, "Subdomain"])
    writer.writeheader()
    for i in range(4):
        row = {name: f"{name} {i}" for name in choices}
        writer.writerow({"Record ID": f"rec{i}", "Question": f'Which, "{i}",\nis it?', **row})
    card = b"---\nconfigs:\n- config_name: gpqa_main\n  data_files: gpqa_main.csv\n---\n"
    files = {"README.md": card, "gpqa_main.csv": text.getvalue().encode(), "gpqa_diamond.csv": b"a\n"}
    hub.dataset("Idavidrein/gpqa", files, gated=True, listed=True)
    folder = "data/arena-hard-v"
    files = {f"{folder}{v}/question.jsonl": lines(letters(n, v)) for v, n in (("0.1", 4), ("2.0", 6))}
    hub.dataset("lmarena-ai/arena-hard-auto", {"README.md": b"x", **files})
    hub.pages[HEALTH] = lines(patients(300))
    for (_, name), repo in hub.repos.items():
        repo.commit = COMMITS.get(name, repo.commit)


COUNTS = {
    "aime2025": {"30": "3"}, "aime2026": {"30": "4"}, "arenahardwriting": {"250": "3"}, "bfcl": {"100": "3"},
    "gpqamain": {"448": "4"}, "gsm8k": {"1319": "20"}, "healthbench": {"245": "100"}, "humaneval": {"164": "3"},
}  # fmt: skip


def folders(content: Path, hub: FakeHub) -> None:
    """The shipped task folders with counts that fit."""
    for name in TASKS:
        shutil.copytree(REPOSITORY / "tasks" / name, content / "tasks" / name)
        path = content / "tasks" / name / "data.toml"
        text = re.sub(r'(?m)^url = ".*"$', f'url = "{hub.storage}{HEALTH}"', path.read_text())
        for before, now in COUNTS[name].items():
            text = re.sub(rf"(?m)^count = {before}$", f"count = {now}", text)
        path.write_text(text)
