"""Read what a judge left: a verdict with exactly its fields, or the reason why there is none (E §3.4, §8.1).

Clean, flagged, missing, unreadable, timed-out and contradictory never collapse into each other. A text is repaired
only where one reading is possible, and how it was read is kept. What a justification says never decides.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import JudgeSpec, VerdictState
from ptb_tui.judging.decoding import Duplicate, candidates, decode, whole

MAX_BYTES = 1 << 20
MAX_WORDS = 100_000  # characters of one justification that are kept: the public file must be one that can be read
_EXAMPLE = re.compile(r"\s*<.*>\s*", re.DOTALL)
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
        if isinstance(found, str) and _EXAMPLE.fullmatch(found):
            return f"{name} is the example of the prompt"
    extras = [] if foreign else sorted(str(name)[:40] for name in value if name not in {*spec.fields(), "nonce"})
    if extras:
        return f"has keys that nobody asked for: {sanitize(', '.join(extras[:5]), limit=120, newlines=False)}"
    return ""


def _kept(value: bool | str) -> bool | str:
    """A field as it is kept: text that every file can hold, of a size that others read."""
    if isinstance(value, bool):
        return value
    text = value.encode("utf-8", "replace").decode()  # halves of surrogate pairs, as programs write odd file names
    return text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]} … ({len(text) - MAX_WORDS} more characters)"


def read_verdict(data: bytes, spec: JudgeSpec, *, nonce: str | None = None, foreign: bool = False) -> Collected:
    """Read a verdict from bytes; total on any input.

    `nonce`: the value that the field `nonce` must hold; it is not part of the verdict. `foreign`: a file that was
    collected before, by us or by other tools: it may have `_meta` and unknown keys, and justifications may be absent or
    empty, as for the original's own reader (E §3.7).
    """
    if len(data) > MAX_BYTES:
        return Collected(Outcome.UNREADABLE, reason=f"larger than {MAX_BYTES >> 20} MB")
    text, encoding = decode(data)
    text = text.strip().strip("\x00")
    if not text:
        return Collected(Outcome.UNREADABLE, reason="empty")
    try:
        try:
            value, how = whole(text)
        except (RecursionError, MemoryError):
            return Collected(Outcome.UNREADABLE, reason="nested too deep")
        except Duplicate:
            raise
        except ValueError:
            found = candidates(text, spec.flags)
            usable = [item for item in found if not _problem(item, spec, foreign=foreign, nonce=nonce)]
            flags = {tuple(item[flag] for flag in spec.flags) for item in usable}
            if len(flags) > 1:
                return Collected(Outcome.CONTRADICTORY, reason=f"{len(usable)} verdicts that differ")
            if not found:
                return Collected(Outcome.UNREADABLE, reason="holds no verdict")
            value, how = (usable or found)[-1], "found within other text"
    except Duplicate as error:
        name = sanitize(str(error), limit=120, newlines=False)
        return Collected(Outcome.CONTRADICTORY, reason=f"{name} is given twice with different values")
    problem = _problem(value, spec, foreign=foreign, nonce=nonce)
    if problem:
        return Collected(Outcome.UNREADABLE, reason=problem, how=how)
    verdict = {name: _kept(value[name]) for name in spec.fields() if isinstance(value.get(name), bool | str)}
    known = {*spec.fields(), "_meta", "nonce"}
    extras = {str(name): item for name, item in value.items() if name not in known}
    meta = value["_meta"] if isinstance(value.get("_meta"), dict) else {}
    how = encoding if how == "exact" else how
    return Collected(Outcome.VALID_WITH_EXTRAS if extras else Outcome.VALID, verdict, "", how, extras, meta)


def read_bounded(path: Path | str) -> tuple[bytes | None, float]:
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
