"""Values in Python's notation, without Python's parser, which hostile text can bring down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pydantic_core import from_json

_TOKEN = re.compile(
    r"""(?P<text>'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+")|(?P<word>True|False|None)\b"""
    r"""|(?P<mark>[\[\]{}:,\s])|(?P<number>-?[0-9][0-9.eE+-]*)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}


def literal(text: str) -> object:
    """The value that JSON or Python's notation of dicts, lists, strings and numbers stands for; otherwise the text."""
    for notation in (text, None):
        try:
            return from_json(notation if notation is not None else "".join(_json(text)))
        except ValueError:
            continue
    return text


def _json(text: str) -> Iterator[str]:
    """The tokens as JSON. ValueError at anything else."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("not in Python's notation")
        position = match.end()
        if match["text"] is not None:
            yield json.dumps(_ESCAPE.sub(_character, match["text"][1:-1]))
        else:
            yield _WORDS.get(match[0], match[0])


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _SHORT.get(match[4], match[4] if match[4] in "'\"\\" else match[0])
    number = int(code, 16)
    return chr(number) if number < 0xD800 or 0xDFFF < number < 0x110000 else "\ufffd"
