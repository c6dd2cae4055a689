"""Read what a judge left: a verdict with exactly its fields, or the reason why there is none (E §3.4, §8.1).

Clean, flagged, missing, unreadable, timed-out and contradictory never collapse into each other. A text is repaired
only where one reading is possible, and how it was read is kept.
"""

from __future__ import annotations

import ast
import json
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ptb_tui.core.verdict import JudgeSpec, VerdictState

MAX_BYTES = 1 << 20
MAX_CANDIDATES = 1000  # opening braces tried in one chatty answer
CLOCK_SLACK = 2.0  # seconds that the time stamps of a file system may lag behind


class Outcome(StrEnum):
    """What became of a judge's answer."""

    VALID = "valid"
    VALID_WITH_EXTRAS = "valid_with_extras"
    UNREADABLE = "unreadable"
    MISSING = "missing"
    TIMED_OUT = "timed_out"
    CONTRADICTORY = "contradictory"


@dataclass(frozen=True, slots=True)
class Collected:
    """A verdict as read. `verdict` is there only for the two valid outcomes; `how` says how the text was read."""

    outcome: Outcome
    verdict: dict[str, bool | str] | None = None
    reason: str = ""
    how: str = "exact"
    extras: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> VerdictState:
        """The state that this answer means."""
        if self.verdict is not None:
            flagged = any(value is True for value in self.verdict.values())
            return VerdictState.FLAGGED if flagged else VerdictState.CLEAN
        return VerdictState(self.outcome.value)


class _Duplicate(ValueError):
    """One key twice with different values."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and (type(found[key]) is not type(value) or found[key] != value):
            raise _Duplicate(key)
        found[key] = value
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs)
_LENIENT = json.JSONDecoder(object_pairs_hook=_pairs, strict=False)
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\.)', re.DOTALL)


def _decode(data: bytes) -> tuple[str, str]:
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace"), f"{encoding} with byte order mark"
    return data.decode("utf-8", "replace"), "exact"


def _mend_escapes(text: str) -> str:
    return _BAD_ESCAPE.sub(lambda match: match[1] or "\\\\", text)


def _python(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval(text)


def _whole(text: str) -> tuple[Any, str]:
    """The value that the text as a whole is, and how it was read. ValueError if it is none."""
    readings: tuple[tuple[str, Callable[[str], Any]], ...] = (
        ("exact", _DECODER.decode),
        ("raw control characters in a text", _LENIENT.decode),
        ("single backslashes in a text", lambda raw: _LENIENT.decode(_mend_escapes(raw))),
    )
    for how, read in readings:
        try:
            return read(text), how
        except _Duplicate:
            raise
        except ValueError:
            continue
    if text[:1] == "{" and len(text) < 100_000:
        try:
            return _python(text), "a Python dictionary"
        except (ValueError, SyntaxError, TypeError):  # RecursionError and MemoryError are for the caller
            pass
    raise ValueError("not JSON")


def _inside(text: str, spec: JudgeSpec) -> Iterator[dict[str, Any]]:
    """Objects within other text that name all flags; none of them lies within another."""
    at = text.find("{")
    for _ in range(MAX_CANDIDATES):
        if at < 0:
            return
        try:
            value, at = _LENIENT.raw_decode(text, at)
        except _Duplicate:
            raise
        except (ValueError, RecursionError):
            at += 1
        else:
            if isinstance(value, dict) and all(flag in value for flag in spec.flags):
                yield value
        at = text.find("{", at)


_SENTENCE = re.compile(r"[^.!?;\n]+")
_NEGATED = re.compile(
    r"\b(no|not|never|nor|none|neither|nothing|without|whether|if|unless|would|could|may|might|cannot|avoid\w*"
    r"|unlikely|rather|false|clean)\b|n[’']t\b",
    re.I,
)
_ASSERTS = {
    "contamination": r"(is|constitutes|amounts to|counts as) (clear(ly)? |a case of )?contamination"
    r"|trained on (the )?(test|benchmark) (items|set|questions|data|answers)|(is|are) contaminated",
    "disallowed_model": r"(is|was) (clearly )?(a|the) disallowed model|submitted the instruct",
    "disallowed_api_usage": r"(is|was|constitutes) (clearly )?(a )?(disallowed|forbidden|prohibited) (api|call|use)",
    "disallowed_ptb_lookup": r"(is|was|constitutes) (clearly )?(a )?(disallowed|forbidden|prohibited) (lookup|access)",
    "general_anomaly": r"(is|constitutes) (clearly )?an anomaly",
}
_DENIES = re.compile(
    r"\bno (evidence|signs?|indications?|traces?|contamination|violations?|anomal(y|ies)|hosted)\b", re.I
)


def contradiction(verdict: dict[str, bool | str]) -> str:
    """Why the reasons say the opposite of the flags, or "". Cautious: a sentence with any negation proves nothing."""
    for name, value in verdict.items():
        if not isinstance(value, bool):
            continue
        reason = str(verdict.get(f"justification_{name}", ""))
        sentences = [found for found in _SENTENCE.findall(reason) if found.strip()]
        asserted = re.compile(_ASSERTS.get(name, r"(?!)"), re.I)
        if not value and any(asserted.search(text) and not _NEGATED.search(text) for text in sentences):
            return f"{name} is false, its reason says the opposite"
        if value and sentences and all(_DENIES.search(text) for text in sentences):
            return f"{name} is true, its reason says the opposite"
    return ""


def _problem(value: Any, spec: JudgeSpec, *, foreign: bool, nonce: str | None) -> str:
    """Why the value is no verdict of this judge, or ""."""
    if not isinstance(value, dict):
        return f"not an object but {type(value).__name__}"
    if nonce is not None and value.get("nonce") != nonce:
        return "the number given to this judge is missing or wrong"
    for name, kind in spec.fields().items():
        found = value.get(name)
        if foreign and kind is str and (found is None or isinstance(found, str)):
            continue
        if name not in value:
            return f"{name} is missing"
        if type(found) is not kind:
            return f"{name} is not a {'boolean' if kind is bool else 'text'} but {type(found).__name__}"
        if isinstance(found, str) and not found.strip():
            return f"{name} is empty"
        if isinstance(found, str) and re.fullmatch(r"\s*<.*>\s*", found, re.DOTALL):
            return f"{name} is the example of the prompt"
    return ""


def read_verdict(data: bytes, spec: JudgeSpec, *, nonce: str | None = None, foreign: bool = False) -> Collected:
    """Read a verdict from bytes; total on any input.

    `nonce`: the value that the field `nonce` must hold. `foreign`: a file that other tools collected: justifications
    may be absent or empty and are not compared with the flags, as the original's own reader does (E §3.7).
    """
    if len(data) > MAX_BYTES:
        return Collected(Outcome.UNREADABLE, reason=f"larger than {MAX_BYTES >> 20} MB")
    text, encoding = _decode(data)
    text = text.strip().strip("\x00")
    if not text:
        return Collected(Outcome.UNREADABLE, reason="empty")
    try:
        try:
            value, how = _whole(text)
        except (RecursionError, MemoryError):
            return Collected(Outcome.UNREADABLE, reason="nested too deep")
        except _Duplicate:
            raise
        except ValueError:
            found = list(_inside(text, spec))
            usable = [item for item in found if not _problem(item, spec, foreign=foreign, nonce=nonce)]
            flags = {tuple(item[flag] for flag in spec.flags) for item in usable}
            if len(flags) > 1:
                return Collected(Outcome.CONTRADICTORY, reason=f"{len(usable)} verdicts that differ")
            if not found:
                return Collected(Outcome.UNREADABLE, reason="holds no verdict")
            value, how = (usable or found)[-1], "found within other text"
    except _Duplicate as error:
        return Collected(Outcome.CONTRADICTORY, reason=f"{error} is given twice with different values")
    problem = _problem(value, spec, foreign=foreign, nonce=nonce)
    if problem:
        return Collected(Outcome.UNREADABLE, reason=problem, how=how)
    verdict = {name: value[name] for name in spec.fields() if isinstance(value.get(name), bool | str)}
    contrary = "" if foreign else contradiction(verdict)
    if contrary:
        return Collected(Outcome.CONTRADICTORY, reason=contrary, how=how)
    known = {*spec.fields(), "_meta", "nonce"}
    extras = {str(name): item for name, item in value.items() if name not in known}
    meta = value["_meta"] if isinstance(value.get("_meta"), dict) else {}
    how = encoding if how == "exact" else how
    return Collected(Outcome.VALID_WITH_EXTRAS if extras else Outcome.VALID, verdict, "", how, extras, meta)


def read_bounded(path: Path) -> tuple[bytes | None, float]:
    """(content, time of last change) of a regular file that is not a link, at most one byte too long; None if absent.

    Anything that exists and is not such a file gives empty content, which no reader takes for a verdict.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, 0.0
    except OSError:
        return b"", 0.0
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        os.close(fd)
        return b"", 0.0
    with os.fdopen(fd, "rb") as file:
        return file.read(MAX_BYTES + 1), info.st_mtime


def collect(
    path: Path, spec: JudgeSpec, *, nonce: str | None = None, started: float | None = None, timed_out: bool = False
) -> Collected:
    """Read `judgement.json` after a judge ended.

    `started` (Unix seconds): a file older than the judge was planted and counts as unreadable. `timed_out`: without a
    valid verdict this is the outcome; a verdict that was complete before the time ran out stands, and says so.
    """
    data, changed = read_bounded(path)
    if data is None:
        return Collected(Outcome.TIMED_OUT if timed_out else Outcome.MISSING, reason="no judgement.json")
    if started is not None and data and changed < started - CLOCK_SLACK:
        found = Collected(Outcome.UNREADABLE, reason="older than the judge that should have written it")
    else:
        found = read_verdict(data, spec, nonce=nonce)
    if not timed_out:
        return found
    if found.verdict is None:
        return Collected(Outcome.TIMED_OUT, reason=found.reason)
    return Collected(found.outcome, found.verdict, "time ran out after this", found.how, found.extras, found.meta)
