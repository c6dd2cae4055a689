"""Function calls: what equals the target, and how functions are offered (E §1.5.5)."""

from typing import Any

import pytest

from tests.tasks.loading import load

code = load("bfcl_evaluation_code", "bfcl/task_context")
task = load("bfcl_task", "bfcl/task_context")


@pytest.mark.parametrize(
    ("calls", "target", "right"),
    [
        ([("add", {"a": 1, "b": [2, 3]})], "add(a=1, b=[2, 3])", True),
        ([("add", {"b": [2, 3], "a": 1})], "add(a=1, b=(2, 3))", True),
        ([("add", {"a": 1.0})], "add(a=1)", True),
        ([("add", {"a": -5})], "add(a=-5)", True),
        ([("add", {"a": True})], "add(a=1)", False),
        ([("add", {"a": "1"})], "add(a=1)", False),
        ([("add", {"a": 1, "b": None})], "add(a=1)", False),
        ([("add", {})], "add(a=1)", False),
        ([("sub", {"a": 1})], "add(a=1)", False),
        ([("math_add", {"a": 1})], "math.add(a=1)", True),
        ([("math.add", {"a": 1})], "math.add(a=1)", True),
        ([("add", {"a": 1})] * 2, "add(a=1)", False),
        ([], "add(a=1)", False),
        ([("add", "no object")], "add(a=1)", False),
        ([("add", {"a": {"x": [1, {"y": "z"}]}})], "add(a={'x': [1, {'y': 'z'}]})", True),
        ([("now", {})], "now()", True),
    ],
)
def test_is_right(calls: list[tuple[str, Any]], target: str, right: bool) -> None:
    assert code.is_right(calls, target) is right


@pytest.mark.parametrize("target", ["add", "add(1)", "add(**x)", "add(a=open('x'))", "add(a=1", ""])
def test_a_target_that_is_no_call_is_an_error(target: str) -> None:
    with pytest.raises(ValueError):
        code.is_right([("add", {})], target)


def test_schema() -> None:
    raw = {
        "type": "dict",
        "properties": {
            "n": {"type": "float", "description": "How much."},
            "xs": {"type": "tuple", "items": {"type": "integer"}},
            "mode": {"type": "string", "enum": ["a", "b"]},
        },
        "required": ["n"],
    }
    assert task.schema(raw) == {
        "type": "object",
        "required": ["n"],
        "properties": {
            "n": {"type": "number", "description": "How much."},
            "xs": {"type": "array", "items": {"type": "integer"}},
            "mode": {"type": "string", "enum": ["a", "b"]},
        },
    }
