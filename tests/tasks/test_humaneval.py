"""Finding the code in a reply, and the scorer that agents run (E §1.5.4)."""

import pytest

from tests.tasks.loading import load

task = load("humaneval_task", "humaneval/task_context")
BODY = "    return 1\n"


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        (f"```python\ndef f():\n{BODY}```", BODY),
        (f"Here:\n```\nnone:\n    x\n```\n```Python\r\ndef f():\r\n{BODY}```", BODY),
        (f"```\ndef f(x: int) -> int:\n{BODY}```\n```\nother\n```", BODY),
        (f"```python\n{BODY}```", BODY),
        (f"```python\nimport os\ndef f():\n{BODY}\ndef g():\n{BODY}```", f"{BODY}\ndef g():\n{BODY}"),
        (BODY, BODY),
        ("```python\nnever closed", "```python\nnever closed"),
        ("", ""),
    ],
)
def test_find_code(completion: str, code: str) -> None:
    assert task.find_code(completion) == code


@pytest.mark.parametrize(
    ("answer", "right"), [(BODY, True), ("    return 2\n", False), ("    exit(0)\n", True), ("    return (\n", False)]
)
def test_the_program_counts_when_it_ends_with_0(answer: str, right: bool) -> None:
    problem = {"prompt": "def f():\n", "test": "def check(f):\n    assert f() == 1\n", "entry_point": "f"}
    assert task.runs(task.program(problem, answer)) is right


def test_a_program_that_does_not_end_is_stopped() -> None:
    assert task.runs("while True: pass", limit_s=0.5) is False
