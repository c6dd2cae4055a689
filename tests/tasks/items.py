"""Invented items for every task, and a folder laid out as an evaluation finds it."""

import json
from pathlib import Path
from typing import Any

from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import load_task
from ptb_tui.run.steps import lay_out_task
from tests.tasks.loading import TASKS

ADD = {
    "name": "math.add",
    "description": "Adds.",
    "parameters": {"type": "dict", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}
RUBRICS = [
    {"criterion": "Says to rest.", "points": 5, "tags": ["axis:completeness", "level:example"]},
    {"criterion": "Names a dose.", "points": -3, "tags": ["axis:accuracy", "level:example"]},
]

ITEMS: dict[str, list[dict[str, Any]]] = {
    "aime2025": [{"id": str(n), "question": f"What is {n} + 40?", "target": str(n + 40)} for n in range(3)],
    "gsm8k": [
        {"id": "w", "question": "One and one?", "reasoning": "1+1=2", "target": "2", "use": "fewshot"},
        *({"id": f"g{n}", "question": f"{n} and 1?", "reasoning": "Count.", "target": str(n + 1)} for n in range(3)),
    ],
    "gpqamain": [
        {"id": f"q{n}", "question": f"Which is right, {n}?", "choices": [f"right{n}", "wrong", "bad", "false"]}
        for n in range(3)
    ],
    "humaneval": [
        {
            "id": f"h/{n}",
            "prompt": f'def f{n}():\n    """Return {n}."""\n',
            "target": f"    return {n}\n",
            "test": f"def check(f):\n    assert f() == {n}\n",
            "entry_point": f"f{n}",
        }
        for n in range(2)
    ],
    "bfcl": [
        {"id": f"b{n}", "question": [[{"role": "user", "content": f"Add {n}."}]], "tools": [ADD],
         "target": f"math.add(a={n})"}
        for n in range(2)
    ],
    "arenahardwriting": [
        {"id": f"a{n}", "question": f"Write a poem about {n}.", "category": "creative_writing"} for n in range(3)
    ],
    "healthbench": [
        {"id": f"p{n}", "messages": [{"role": "user", "content": f"My foot {n} hurts."}],
         "rubrics": RUBRICS, "tags": ["theme:feet"]}
        for n in range(3)
    ],
}  # fmt: skip
ITEMS["aime2026"] = ITEMS["aime2025"]
INSPECT = ("aime2025", "aime2026", "gsm8k", "gpqamain", "humaneval", "bfcl")
GRADED = ("arenahardwriting", "healthbench")


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def lay_out(home: Path, task: str, final: bool, items: list[dict[str, Any]] | None = None) -> Path:
    """The task's folder as in a sandbox, its items (else those above) one above; returns the script."""
    rows = ITEMS[task] if items is None else items
    content = Content.of([TASKS.parent])
    found = load_task(content, task)
    script = found.final_script if final else found.folder / "evaluate.py"
    lay_out_task(home / "task", found, content, script)
    write_lines(home / "items.jsonl", rows)
    if task == "arenahardwriting":
        write_lines(
            home / "baseline_answers.jsonl",
            [{"id": row["id"], "answer": f"Baseline poem {row['id']}."} for row in rows],
        )
    return home / "task" / script.name
