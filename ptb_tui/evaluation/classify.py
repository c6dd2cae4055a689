"""The last words of a failed attempt: its class, a row of `classes.toml`, and the first real error line (cases A20,
C02). The class says whose matter it is and what the next attempt lowers."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from ptb_tui.core.text import sanitize

Then = Literal["repeat", "ease", "next_stage", "stop"]
_TAIL = 512 << 10
_LINE = 300
INCOMPLETE, MISSING = 4, 3  # exit statuses of our evaluation scripts


@dataclass(frozen=True, slots=True)
class Kind:
    """One class of failures. After `after` of them in a row the ladder does what `then` says."""

    name: str
    cause: str
    then: Then = "repeat"
    after: int = 1
    signs: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True, slots=True)
class LastWords:
    """`cause` is a row of causes.toml, `kind` a class of classes.toml (or "error", ""), `line` one line fit for a
    terminal."""

    cause: str
    kind: str
    line: str

    @property
    def key(self) -> str:
        """What makes two failures "the same": the line without numbers and addresses."""
        return re.sub(r"0x[0-9a-fA-F]+|[0-9]+", "#", f"{self.kind} {self.line}")


@cache
def kinds() -> dict[str, Kind]:
    """All classes by name, in the order in which they are looked for."""
    table = tomllib.loads(Path(__file__).with_name("classes.toml").read_text("utf-8"))
    rows = [{**row, "signs": tuple(re.compile(sign) for sign in row.get("signs", ()))} for row in table["class"]]
    return {row["name"]: Kind(**row) for row in rows}


def kind_of(name: str) -> Kind:
    """The class of that name; for any other name one that is simply tried again."""
    return kinds().get(name) or Kind(name, "eval_failed")


_GAVE_UP = re.compile(r"graded .*incomplete")  # the last word of a script, before what led to it
_GRADER = re.compile(r"insufficient_quota|invalid_api_key|AuthenticationError|RateLimitError|billing_hard_limit")
_DATA = re.compile(r"not found in: |holds no items|: item [0-9]+ lacks |(?:\.jsonl?|line [0-9]+) is not JSON")
_RAISED = re.compile(r"^(?:\S+: )?(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Failure|Exit|Interrupt)\b")
_ERROR = re.compile(r"(?:^|\W)(?:ERROR|Error|error|FATAL|fatal)\b")


def tail(path: Path, limit: int = _TAIL) -> list[str]:
    """The last lines of a log as text; none when it cannot be read. Links are not followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            size = os.fstat(fd).st_size
            file.seek(max(0, size - limit))
            lines = file.read(limit).decode("utf-8", "replace").split("\n")
    except OSError:
        return []
    return lines[1:] if size > limit else lines


def read(lines: list[str], *, grader: bool = False) -> LastWords:
    """What a log ends with. `grader`: the task asks a paid grader, whose refusals are not the model's fault."""
    cut = [line[:4096] for line in lines]
    if grader and (found := _first(_GAVE_UP, cut[::-1]) or _first(_GRADER, cut)):
        return _named("grader", found)
    for kind in kinds().values():
        for line in cut if kind.signs else ():
            if any(sign.search(line) for sign in kind.signs):
                return _named(kind.name, line)
    if found := _first(_RAISED, cut) or _first(_ERROR, cut):
        return LastWords("eval_failed", "error", _words(found))
    last = next((line for line in reversed(cut) if line.strip()), "")
    return LastWords("eval_failed", "", _words(last) or "it printed nothing")


def _first(sign: re.Pattern[str], lines: list[str]) -> str:
    return next((line for line in lines if sign.search(line)), "")


def _named(name: str, line: str) -> LastWords:
    return LastWords(kind_of(name).cause, name, _words(line))


def _words(line: str) -> str:
    return sanitize(line.strip(), limit=_LINE, newlines=False)


def last_words(log: Path, *, rc: int | None, signal: int | None, grader: bool = False) -> LastWords:
    """The last words of an attempt that ended with `rc` or by `signal` and gave no usable metrics."""
    lines = tail(log)
    found = read(lines, grader=grader)
    if grader and rc == INCOMPLETE:
        return found if found.kind == "grader" else _named("grader", found.line)
    if signal == 9 and found.cause == "eval_failed" and found.kind != "GPU memory":
        return _named("killed", "killed by signal 9, most likely for memory")
    if rc == MISSING and found.cause == "eval_failed" and found.kind not in ("model load", "tokenizer"):
        data = _first(_DATA, lines)
        return _named("data", data) if data else _named("input missing", found.line)
    return found
