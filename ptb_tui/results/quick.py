"""The common run of the original scripts, read in one pass: measured, timed, every verdict there.

Ten thousand of them are read in the time that a plain script takes (benchmarks/collect.py). Anything unusual is None,
and `reading` reads it; for the rest both give the same record, which a test holds them to.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Container, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from ptb_tui.core.names import RunName
from ptb_tui.core.scores import RunFacts, VerdictSummary
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import JudgeSpec, VerdictState
from ptb_tui.judging.wording import at_odds
from ptb_tui.results.foreign import EXHAUSTED, HARBOR, HEAD, Arguments, foreign_model, read_log, utc
from ptb_tui.results.index import Stamp
from ptb_tui.results.metrics import parse_cli_version, parse_metrics, parse_time
from ptb_tui.results.records import Assessment, RunRecord
from ptb_tui.results.regular import head_bytes
from ptb_tui.results.verdicts import KNOWN, LOOKUP_SINCE, original_policies
from ptb_tui.results.worth import worth

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LIMIT = 1 << 16  # bytes of a file that is read in one go; a larger one is for `reading`
_UNUSUAL = (".ptb", "judgement_", "metrics.json.")
_SCORED = Assessment("scored", "measured")
_SLOT = "{justification}"
_quoted = json.encoder.encode_basestring
_REASON = 2000  # characters of a justification, as `verdicts` cuts it


class _Unusual(Exception):
    """This run is for `reading`."""


def _read(path: str, name: str, found: list[Stamp], times: list[float]) -> bytes:
    """A small regular file of the run whose folder is `path`, its stamp noted."""
    fd = os.open(path + name, _FLAGS)
    try:
        info = os.fstat(fd)
        size = info.st_size
        if size > _LIMIT or not stat.S_ISREG(info.st_mode):
            raise _Unusual
        found.append((name, info.st_mtime_ns, size))
        times.append(info.st_mtime)
        data = os.read(fd, size + 1)
        if len(data) != size:
            raise _Unusual  # somebody writes it
        return data
    finally:
        os.close(fd)


def _head(path: str, name: str, listed: Container[str]) -> bytes:
    return head_bytes(Path(path, name), HEAD) if name in listed else b""


class _Template:
    """The summary of a clean inline verdict of one judge, but for its words; and of one that is not there."""

    def __init__(self, judge: str, spec: JudgeSpec, effect: str, needed: bool) -> None:
        self.name = f"judgement_{spec.output_id}.json"
        self.needed = needed
        self.pairs = tuple((flag, f"justification_{flag}") for flag in spec.flags)
        self.size = 2 * len(spec.flags)
        self.quotes = 6 * len(spec.flags)  # of the names of a flag and its reason, and of the reason
        common: dict[str, Any] = {
            "judge": judge, "output_id": spec.output_id, "effect": effect, "required": needed, "flags": spec.flags,
        }  # fmt: skip
        clean = VerdictSummary(
            **common, state=VerdictState.CLEAN, source="inline", plain=VerdictState.CLEAN, imported=True, votes=1,
            opinions=(False,), file=self.name, justification=_SLOT,
        )  # fmt: skip
        absent = VerdictSummary(
            **common, state=VerdictState.MISSING, source="none", plain=VerdictState.MISSING, reason="no verdict",
            justification="no verdict",
        )  # fmt: skip
        self.model = clean
        before, after = to_json(clean.model_dump(mode="json", exclude_defaults=True)).split(to_json(_SLOT))
        self.before, self.after = before.decode(), after.decode()
        self.absent = to_json(absent.model_dump(mode="json", exclude_defaults=True)).decode()

    def summary(self, data: bytes) -> tuple[str, bool]:
        """The summary, as JSON, of a verdict with exactly the fields of the judge, and whether it flags anything."""
        value = from_json(data)
        if type(value) is not dict or len(value) != self.size or b"\\" in data:
            raise _Unusual
        if data.count(b'"') != self.quotes:  # a key is there twice
            raise _Unusual
        words: list[str] = []
        up: list[str] = []
        for flag, reason in self.pairs:
            said, raised = value.get(reason), value.get(flag)
            if type(raised) is not bool or type(said) is not str or not (said := said.strip()):
                raise _Unusual
            if raised:
                words, up = [said] if not up else [*words, said], [*up, flag]
            elif not up and said not in words:
                words.append(said)
        if at_odds(value):
            raise _Unusual
        text = sanitize(" ".join(dict.fromkeys(words)) if len(words) > 1 else words[0], limit=_REASON, newlines=False)
        if not text:  # nothing but characters that are not shown
            raise _Unusual
        if not up:
            return f"{self.before}{_quoted(text)}{self.after}", False
        state, said_up = VerdictState.FLAGGED, {"flagged": tuple(up), "opinions": (True,), "justification": text}
        found = self.model.model_copy(update={"state": state, "plain": state, **said_up})
        return to_json(found.model_dump(mode="json", exclude_defaults=True)).decode(), True


@cache
def _templates(lookup: bool) -> tuple[tuple[_Template, ...], frozenset[str]]:
    """The judges of a run of the original scripts, and the names of all files that are read."""
    policies = original_policies(LOOKUP_SINCE if lookup else 1)
    found = tuple(_Template(item.judge, KNOWN[item.judge], item.effect, item.needed) for item in policies)
    return found, frozenset(("metrics.json", "time_taken.txt", *(template.name for template in found)))


@cache
def _facts() -> dict[str, Any]:
    facts = RunFacts(run_id=0, agent_done=True)
    return facts.model_dump(mode="json", exclude={"verdicts"})


def read_quick(
    root: Path, relative: str, method: str, run_name: str, parsed: RunName, agent: str
) -> tuple[RunRecord, list[Stamp]] | None:
    """The record of a run of others and what its worth was read from; None for every run that is not the common one.

    The caller has seen that nothing lies over it (`overlay`).
    """
    path = f"{root}/{relative}/"
    try:
        return _read_run(root, path, relative, method, run_name, parsed, agent)
    except (_Unusual, OSError, ValueError):
        return None


def _read_run(
    root: Path, path: str, relative: str, method: str, run_name: str, parsed: RunName, agent: str
) -> tuple[RunRecord, list[Stamp]]:
    folder = os.stat(path)
    found: list[Stamp] = [("", folder.st_mtime_ns, folder.st_size)]
    times: list[float] = []
    listed = set(os.listdir(path))
    templates, known = _templates(parsed.run_id >= LOOKUP_SINCE)
    more = not known.issuperset(listed)
    if more:
        times += _times(path, listed - known)
    metrics = parse_metrics(_read(path, "metrics.json", found, times))
    timed = _read(path, "time_taken.txt", found, times)
    seconds = parse_time(timed.decode("utf-8", "replace")) if len(timed) <= 4096 else None
    if metrics.accuracy is None or metrics.problem or seconds is None:
        raise _Unusual
    verdicts, flagged = [], False
    for template in templates:
        if template.name in listed:
            said, raised = template.summary(_read(path, template.name, found, times))
            verdicts.append(said)
            flagged |= raised
        elif template.needed:
            raise _Unusual
        else:
            verdicts.append(template.absent)
    values = _facts().copy()
    values["run_id"] = parsed.run_id
    values["accuracy"] = metrics.accuracy
    values["stderr"] = metrics.stderr
    values["seeds"] = list(metrics.seeds)
    values["seconds"] = seconds
    arguments, begun = None, ""
    if more:
        begun, arguments = _further(path, listed, values)
    started = begun or utc(min(times))
    verdicts_text = f"[{','.join(verdicts)}]"
    assessment = _SCORED
    if flagged:
        assessment = worth(RunFacts.model_validate({**values, "verdicts": from_json(verdicts_text)}))
        assessment = assessment._replace(worth=str(assessment.worth))
    record = RunRecord(
        id=parsed.run_id,
        method=method,
        run_name=run_name,
        benchmark=parsed.benchmark,
        model=foreign_model(arguments, parsed),
        origin="upstream",
        place="run",
        root=root,
        relative=relative,
        agent=agent,
        created=started,
        started=started,
        verdicts_text=verdicts_text,
        values=values,
        assessment=assessment,
    )
    return record, found


def _times(path: str, names: Iterable[str]) -> list[float]:
    """Times of last change of files that are not read, unless one of them makes the run unusual."""
    times = []
    for name in names:
        if name.startswith(_UNUSUAL) or name.endswith(("_judgement.txt", EXHAUSTED)):
            raise _Unusual
        info = os.lstat(path + name)
        if not stat.S_ISDIR(info.st_mode):
            times.append(info.st_mtime)
    return times


def _is_folder(path: str) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _further(path: str, listed: Container[str], values: dict[str, Any]) -> tuple[str, Arguments | None]:
    """What further files say: into `values`; returned are when the run began and what it was called with."""
    if "final_model" in listed and _is_folder(f"{path}final_model"):
        values["has_model"] = True
    elif "task" in listed and _is_folder(f"{path}task"):
        values["has_model"] = False
    version = _head(path, "cli_version.txt", listed)
    if HARBOR in version:
        raise _Unusual
    values["cli_version"] = parse_cli_version(version)
    values["has_trace"] = "solve_out.txt" in listed
    arguments, begun = read_log(_head(path, "output.log", listed))
    return begun, arguments
