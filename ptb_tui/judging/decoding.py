"""Find the one object that a judge's answer holds, however it is wrapped or written (cases J01, J03). Pure and total.

A plain reading comes first; then what people and models do to JSON: fences, prose around it, raw line breaks, single
backslashes, comments, trailing commas, a Python dictionary. What can be read in two ways is not read.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MAX_CANDIDATES = 1000  # opening braces tried in one chatty answer


class Duplicate(ValueError):
    """One key twice with different values; the message is the key."""


def _pairs(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found and (type(found[key]) is not type(value) or found[key] != value):
            raise Duplicate(key)
        found[key] = value
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs)
_LENIENT = json.JSONDecoder(object_pairs_hook=_pairs, strict=False)
# A text that never ends is one match, too: else each quote in it would be the start of another vain search.
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)
_FENCED = re.compile(r"```\w*[ \t]*\n(.*?)```", re.DOTALL)
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\.)', re.DOTALL)


def decode(data: bytes) -> tuple[str, str]:
    """(text, how it was encoded, "exact" for plain UTF-8). Bytes that are no text are replaced."""
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace"), f"{encoding} with byte order mark"
    for mark, encoding in ((b"{\x00", "utf-16-le"), (b"\x00{", "utf-16-be")):
        if data.startswith(mark):
            return data.decode(encoding, "replace"), f"{encoding} without byte order mark"
    return data.decode("utf-8", "replace"), "exact"


def _mend_escapes(text: str) -> str:
    return _BAD_ESCAPE.sub(lambda match: match[1] or "\\\\", text)


def _tidy(text: str) -> str:
    """The text without comments and trailing commas, which JSON does not have; what stands in quotes is left alone."""
    return _TRAILING.sub(lambda match: match[1] or "", _COMMENT.sub(lambda match: match[1] or "", text))


def _python(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Dict):
            keys = [key and ast.literal_eval(key) for key in tree.keys]
            values = [ast.literal_eval(value) for value in tree.values]
            return _pairs(list(zip(keys, values, strict=True)))
        return ast.literal_eval(tree)


def whole(text: str) -> tuple[Any, str]:
    """The value that the text as a whole is, and how it was read. ValueError if it is none."""
    readings: tuple[tuple[str, Callable[[str], Any]], ...] = (
        ("exact", _DECODER.decode),
        ("raw control characters in a text", _LENIENT.decode),
        ("single backslashes in a text", lambda raw: _LENIENT.decode(_mend_escapes(raw))),
    )
    for how, read in readings:
        try:
            return read(text), how
        except Duplicate:
            raise
        except ValueError:
            continue
    if text[:1] == "{" and len(text) < 100_000:
        try:
            return _python(text), "a Python dictionary"
        except Duplicate:
            raise
        except (ValueError, SyntaxError, TypeError):  # RecursionError and MemoryError are for the caller
            pass
    raise ValueError("not JSON")


def _inside(text: str, flags: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Objects within other text that name all flags; none of them lies within another."""
    at = text.find("{")
    for _ in range(MAX_CANDIDATES):
        if at < 0:
            return
        try:
            value, at = _LENIENT.raw_decode(text, at)
        except Duplicate:
            raise
        except (ValueError, RecursionError):
            at += 1
        else:
            if isinstance(value, dict) and all(flag in value for flag in flags):
                yield value
        at = text.find("{", at)


def candidates(text: str, flags: Sequence[str]) -> list[dict[str, Any]]:
    """Everything in a chatty answer that can be read as a verdict, each way of reading tried: a broken object beside a
    whole one must not go unseen."""
    found = list(_inside(text, flags))
    if (tidied := _tidy(text)) != text:
        found += _inside(tidied, flags)
    for block in _FENCED.findall(text)[:20]:
        try:
            value, _ = whole(block.strip())
        except Duplicate:
            raise
        except (ValueError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict) and all(flag in value for flag in flags):
            found.append(value)
    return found
