"""What a reference item and a record consist of: their strings, and the question, answer and passage among them."""

from __future__ import annotations

import json
from typing import Any, Dict, List

FIELD_KEYS = {
    "question": ("question", "input", "prompt", "text", "content"),
    "answer": ("answer", "output", "response", "target"),
    "passage": ("passage", "context", "document"),
}
Match = Dict[str, Any]


def strings_of(value: Any) -> List[str]:
    """Every string and number in a JSON value, in order; long keys too, chat roles not."""
    found: List[str] = []
    todo = [value]
    while todo:
        item = todo.pop()
        kind = type(item)
        if kind is str:
            found.append(item)
        elif kind is dict:
            if not todo and all(type(inner) is str for inner in item.values()):  # most records, at once
                for key, inner in item.items():
                    if len(inner) >= 20 or (key != "role" and key != "from"):
                        found.append(inner)
                    if len(key) > 20:
                        found.append(key)
                continue
            for key, inner in reversed(list(item.items())):
                if type(key) is str and len(key) > 20:
                    todo.append(key)
                if type(inner) is not str or len(inner) >= 20 or (key != "role" and key != "from"):
                    todo.append(inner)
        elif kind is list or kind is tuple:
            todo.extend(reversed(item))
        elif kind is not bool and item is not None:
            found.append(repr(item))
    return found


def parse(text: str) -> Any:
    """The JSON value in `text`; None when there is none (also when it is nested too deep)."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def fields_of(item: Any) -> Dict[str, str]:
    """question, answer and passage of a reference item: the first non-blank string of each group of keys."""
    found: Dict[str, str] = {}
    if isinstance(item, dict):
        for name, keys in FIELD_KEYS.items():
            for key in keys:
                if isinstance(item.get(key), str) and item[key].strip():
                    found[name] = item[key]
                    break
    return found or {"question": " ".join(strings_of(item))}


def load_reference(path: str) -> List[Any]:
    """Items of a reference file: a JSON array, else JSON lines. Raises OSError or ValueError."""
    with open(path, encoding="utf-8-sig") as stream:
        text = stream.read()
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [json.loads(line) for line in text.splitlines() if line.strip()]
