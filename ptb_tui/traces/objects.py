"""JSON objects in a line: one, several in a row, damaged, or none. Total on any bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json

_ESCAPE = re.compile(r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f]")
_DECODER = json.JSONDecoder(strict=False)


class Rest(NamedTuple):
    """What of a line is not a JSON object, and why it is shown raw ("" for text that never claimed to be JSON)."""

    text: bytes
    reason: str


Piece = dict[str, Any] | Rest


def read_line(payload: bytes, *, cut: bool) -> Sequence[Piece]:
    """The objects of a line in order, with the text that is none of them. `cut`: the line is only a beginning; what
    can be read of its object is returned."""
    text = payload.strip()
    if not text.startswith(b"{"):
        return (Rest(payload, "JSON, but not an object" if text[:1] in b'["' and _is_json(text) else ""),)
    try:
        value = from_json(text, allow_partial="trailing-strings" if cut else False)
        return (value,)
    except ValueError as error:
        reason = str(error)
    repaired = _repair(text)
    try:
        value = from_json(repaired, allow_partial="trailing-strings" if cut else False)
        return (value,)
    except ValueError:
        return _several(payload, repaired, reason)


def _is_json(text: bytes) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return bool(text)


def _repair(text: bytes) -> str:
    """Bad UTF-8, lone surrogates and bare control characters replaced, so that the rest of the object can be read."""

    def escape(match: re.Match[str]) -> str:
        return "\\ufffd" if len(match[0]) == 6 else match[0]

    return _CONTROL.sub("�", _ESCAPE.sub(escape, text.decode("utf-8", "replace")))


def _several(payload: bytes, text: str, reason: str) -> Sequence[Piece]:
    pieces: list[Piece] = []
    position = 0
    while position < len(text) and text[position] == "{" and len(pieces) < 1000:
        try:
            _, end = _DECODER.raw_decode(text, position)
            value = from_json(text[position:end])
        except (ValueError, RecursionError):
            break
        pieces.append(value)
        while end < len(text) and text[end] in " \t\r":
            end += 1
        position = end
    if not pieces:
        return (Rest(payload, f"not JSON: {reason}"),)
    if position < len(text):
        pieces.append(Rest(text[position:].encode("utf-8", "replace"), "text after a JSON object"))
    return pieces
