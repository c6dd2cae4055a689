"""How a reply is scored: right when it is exactly one function call with the name and the arguments of the target.

The target is written as Python, for example `add(a=1, b=[2, 3])`. Both sides are compared as JSON values, so that a
tuple equals a list; 1 and 1.0 are equal, 1 and True are not.
"""

import ast
import json
from typing import Any, Dict, List, Tuple


def plain_name(name: str) -> str:
    """A function's name as it is offered to the model, where dots are not allowed."""
    return name.replace(".", "_")


def _value(node: ast.expr) -> Any:
    """A literal; a bare name stands for itself as text. Raises ValueError for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return ast.literal_eval(node)


def parse_target(text: str) -> Tuple[str, Dict[str, Any]]:
    """Name and arguments of the call written in `text`. Raises ValueError when it is no such call."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError("not a call: {!r}".format(text)) from error
    if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
        raise ValueError("not a call with named arguments alone: {!r}".format(text))
    arguments = {str(keyword.arg): _value(keyword.value) for keyword in call.keywords}
    return plain_name(ast.unparse(call.func)), as_json(arguments)


def as_json(value: Any) -> Any:
    """The value after a way through JSON."""
    return json.loads(json.dumps(value, default=list))


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values, in which truth values are no numbers."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def is_right(calls: List[Tuple[str, Any]], target: str) -> bool:
    """Whether the calls of a reply, each a name and its arguments, are the target's one call."""
    name, arguments = parse_target(target)
    if len(calls) != 1 or plain_name(calls[0][0]) != name:
        return False
    try:
        return same(as_json(calls[0][1]), arguments)
    except (TypeError, ValueError, RecursionError):
        return False


def call_scorer() -> Any:
    """The scorer of inspect; a call that could not be parsed is wrong."""
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer

    @scorer(metrics=[accuracy()], name="one_call")
    def one_call() -> Any:
        async def score(state: Any, target: Any) -> Any:
            said = [message for message in state.messages if message.role == "assistant"]
            calls = said[0].tool_calls or [] if len(said) == 1 else []
            found = [(call.function, call.arguments) for call in calls if not call.parse_error]
            right = len(found) == len(calls) and is_right(found, target.text)
            return Score(value=CORRECT if right else INCORRECT, answer=json.dumps(found, default=str))

        return score

    return one_call()
