"""Contents of messages as readable text, and numbers that can be trusted. Total on any parsed JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

_PLAIN_INT = 1 << 63
_encode = json.JSONEncoder(ensure_ascii=False).encode
_DEPTH = 12  # levels that are laid out; deeper ones are written compactly


def count(value: object) -> int | None:
    """A token count; None unless it is a whole number that a counter could hold."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def money(value: object) -> float | None:
    """An amount in dollars; None unless it is finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and abs(value) >= 1 << 53:
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def names(value: object) -> list[str]:
    """Names of tools, given as strings or as objects with a name."""
    items = value if isinstance(value, list) else []
    found = (item.get("name") if isinstance(item, dict) else item for item in items)
    return [name for name in found if isinstance(name, str)]


def pretty(value: object) -> str:
    """JSON laid out for reading: one `key: value` a line, strings as they are with their line breaks. One way only."""
    if isinstance(value, str):
        return value
    return "\n".join(_layout(value, 0))


def _scalar(value: object) -> str:
    # Compact and one line: JSON from the parser is at most 200 levels deep, so this cannot recurse too far.
    if isinstance(value, str):
        return value
    if type(value) is int and -_PLAIN_INT < value < _PLAIN_INT:
        return str(value)
    return _encode(value)


def _layout(value: object, depth: int) -> Iterator[str]:
    indent = "  " * depth
    items: list[tuple[str, Any]]
    if isinstance(value, dict) and value and depth < _DEPTH:
        items = [(f"{key}:", item) for key, item in value.items()]
    elif isinstance(value, list) and value and depth < _DEPTH:
        items = [("-", item) for item in value]
    else:
        yield indent + _scalar(value).replace("\n", "\n" + indent)
        return
    for head, item in items:
        if isinstance(item, dict | list) and item and depth + 1 < _DEPTH:
            yield indent + head
            yield from _layout(item, depth + 1)
        else:
            yield f"{indent}{head} " + _scalar(item).replace("\n", "\n" + indent + "  ")


def call_text(value: object) -> str:
    """The input of a tool call: `$ command` for a shell, otherwise its fields."""
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(text := value.get("command"), str):
            return "$ " + text
        for key, mark in (("command", "$ "), ("code", "python ")):
            if isinstance(text := value.get(key), str):
                rest = {name: item for name, item in value.items() if name != key}
                return mark + text + ("\n" + pretty(rest) if rest else "")
    return pretty(value)


def image_note(block: dict[str, Any]) -> str:
    """What stands for a picture."""
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    data, kind = source.get("data"), source.get("media_type")
    size = f", {len(data) * 3 // 4:,} bytes" if isinstance(data, str) else ""
    return f"[image {kind if isinstance(kind, str) else ''}{size}]".replace(" ,", ",").replace(" ]", "]")


def result_text(content: object) -> str:
    """The content of a tool result: a string, a list of blocks or strings, or anything else."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return pretty(content)
    return "\n".join(_part(part) for part in content)


def _part(part: object) -> str:
    if isinstance(part, dict):
        kind = part.get("type")
        if kind == "text" and isinstance(text := part.get("text"), str):
            return text
        if kind == "json" and "json" in part:
            return pretty(part["json"])
        if kind == "image":
            return image_note(part)
    return pretty(part)
