"""HTCondor's answers: `condor_submit`, `condor_q -json`, `condor_history -json` (versions 9 to 25).

Ask with `-json -attributes` and `ATTRIBUTES`; names come back in any case (condor_q answers in the case of the ad or of
the question), so they are compared without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from backends.parse.answer import (
    Answer,
    NotReached,
    Outcome,
    ParseError,
    Phase,
    Refused,
    SchedulerJob,
    Source,
    Submitted,
    SubmitUnknown,
    one_line,
    text_of,
    words_of,
)
from backends.parse.reasons import hold_cause

TOKEN_ATTRIBUTE = "PtbToken"
ATTRIBUTES = (
    "ClusterId",
    "ProcId",
    "JobStatus",
    TOKEN_ATTRIBUTE,
    "QDate",
    "JobStartDate",
    "NumJobStarts",
    "RemoteHost",
    "LastRemoteHost",
    "HoldReason",
    "HoldReasonCode",
    "HoldReasonSubCode",
    "RemoveReason",
    "ExitCode",
    "ExitBySignal",
    "ExitSignal",
)

_LONG = re.compile(r"(\d{1,9}) job\(s\) submitted to cluster (\d{1,15})\.")
_TERSE = re.compile(r"(\d{1,15})\.(\d{1,9}) - (\d{1,15})\.(\d{1,9})")
_NOBODY = re.compile(r"Failed to connect to (?:local )?queue manager|Can't find address of (?:local )?schedd", re.I)
_DOUBT = re.compile(r"commit|connection|timed? ?out|SECMAN|CEDAR|communicat|lost|socket", re.I)


def parse_submit(stdout: bytes, stderr: bytes, rc: int | None) -> Outcome:
    """The cluster that a `condor_submit`, with or without `-terse`, made.

    Only whole lines count, so digits in a banner or a warning are never an id; two different ids are no id.
    """
    out, err = text_of(stdout), text_of(stderr)
    found: set[Submitted] = set()
    for line in out.split("\n"):
        if long := _LONG.fullmatch(line.strip()):
            found.add(Submitted(int(long[2]), count=int(long[1])))
        elif (terse := _TERSE.fullmatch(line.strip())) and terse[1] == terse[3]:
            found.add(Submitted(int(terse[1]), count=int(terse[4]) - int(terse[2]) + 1))
    words = words_of(err) or words_of(out)
    if rc == 0 and len(found) == 1:
        return found.pop()
    if rc is None or rc == 0 or found:
        return SubmitUnknown(words or "condor_submit named no cluster")
    if _NOBODY.search(err) or _NOBODY.search(out):
        return NotReached(words)
    errors = [line.strip() for line in f"{out}\n{err}".split("\n") if line.lstrip().startswith("ERROR")]
    if not errors or _DOUBT.search(err) or any(_DOUBT.search(line) for line in errors):
        return SubmitUnknown(words or f"condor_submit ended with {rc}")
    return Refused(words_of(*errors))


def _integer(ad: Mapping[str, Any], name: str) -> int | None:
    value = ad.get(name.lower())
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > 1e15:
        return None
    return int(value)


def _string(ad: Mapping[str, Any], name: str) -> str:
    value = ad.get(name.lower())
    return one_line(value) if isinstance(value, str) else ""


def _time(ad: Mapping[str, Any], name: str) -> float | None:
    value = _integer(ad, name)
    return float(value) if value is not None and value > 0 else None


def _handle(ad: Mapping[str, Any]) -> str:
    cluster, proc = _integer(ad, "ClusterId"), _integer(ad, "ProcId")
    return "" if cluster is None or proc is None or cluster < 1 or proc < 0 else f"{cluster}.{proc}"


_QUEUE: Mapping[int, tuple[Phase, str]] = {
    1: (Phase.QUEUED, "idle"),
    2: (Phase.RUNNING, "running"),
    3: (Phase.ENDING, "being removed"),
    4: (Phase.ENDED, "completed"),
    5: (Phase.HELD, "held"),
    6: (Phase.ENDING, "transferring output"),
    7: (Phase.SUSPENDED, "suspended"),
}
_HISTORY: Mapping[int, tuple[Phase, str]] = {3: (Phase.ENDED, "removed"), 4: (Phase.ENDED, "completed")}


def _job(ad: Mapping[str, Any], states: Mapping[int, tuple[Phase, str]]) -> SchedulerJob | ParseError:
    handle = _handle(ad)
    if not handle:
        return ParseError("", "a job without ClusterId and ProcId", one_line(str(ad))[:200])
    status = _integer(ad, "JobStatus")
    if status is None or status not in states:
        return ParseError(handle, "unknown JobStatus", one_line(repr(ad.get("jobstatus"))))
    phase, word = states[status]
    reason = cause = step = ""
    if phase is Phase.HELD:
        reason = _string(ad, "HoldReason")
        why = hold_cause(_integer(ad, "HoldReasonCode"), _integer(ad, "HoldReasonSubCode"), reason)
        reason, cause, step = reason or why.words, why.cause, why.next
    elif status == 3:
        reason = _string(ad, "RemoveReason")
        cause = remove_cause(reason)
    signalled = ad.get("exitbysignal") is True
    ended = phase is Phase.ENDED and status == 4
    return SchedulerJob(
        handle=handle,
        phase=phase,
        word=word,
        token=_string(ad, TOKEN_ATTRIBUTE),
        reason=reason,
        cause=cause,
        next=step,
        host=_string(ad, "RemoteHost") or _string(ad, "LastRemoteHost"),
        starts=_integer(ad, "NumJobStarts"),
        queued=_time(ad, "QDate"),
        started=_time(ad, "JobStartDate"),
        exit_code=_integer(ad, "ExitCode") if ended and not signalled else None,
        signal=_integer(ad, "ExitSignal") if ended and signalled else None,
    )


def remove_cause(reason: str) -> str:
    """The cause for the reason of a removal: a person's `condor_rm`, or a rule that nobody here wrote."""
    return "operator" if re.match(r"via condor_rm\b|Python-initiated action", reason) else "unknown"


# What begins the document: nothing a site prints before it looks like this.
_DOCUMENT = re.compile(r"^\[[ \t]*(?:$|[{\]])", re.MULTILINE)


def _ads(text: str) -> tuple[list[dict[str, Any]], str] | None:
    begin = _DOCUMENT.search(text)
    if begin is None:
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text, begin.start())
    except (ValueError, RecursionError):  # cut, not JSON, numbers of thousands of digits, absurdly deep
        return None
    if not isinstance(value, list) or not all(isinstance(ad, dict) for ad in value):
        return None
    return [{str(name).lower(): item for name, item in ad.items()} for ad in value], text[end:].strip()


def _answer(out: str, err: str, read: Callable[[Mapping[str, Any]], SchedulerJob | ParseError]) -> Answer:
    found = _ads(out)
    if found is None:
        if not out.strip():
            return Answer(Source.UNREACHABLE, words=words_of(err))
        return Answer(Source.UNREADABLE, problems=(ParseError("", "no whole JSON list", one_line(out[-200:])),))
    ads, rest = found
    jobs: dict[str, SchedulerJob] = {}
    problems = [ParseError("", "text after the list", one_line(rest[:200]))] if rest else []
    for ad in ads:
        job = read(ad)
        if isinstance(job, ParseError):
            problems.append(job)
        elif job.handle in jobs:
            problems.append(ParseError(job.handle, "listed twice"))
        else:
            jobs[job.handle] = job
    return Answer(Source.ANSWERED, tuple(jobs.values()), tuple(problems), words_of(err))


def parse_condor_q(stdout: bytes, stderr: bytes, rc: int | None) -> Answer:
    """The queue. 0 bytes mean "no jobs" only with exit code 0 and nothing on stderr; warnings may come before the list.

    A job with an unknown state is one ParseError; half a list is UNREADABLE, never an empty queue (case F07).
    """
    out, err = text_of(stdout), text_of(stderr)
    if rc != 0:
        return Answer(Source.UNREACHABLE, words=words_of(err) or words_of(out))
    if not stdout and not stderr:
        return Answer(Source.ANSWERED)
    return _answer(out, err, lambda ad: _job(ad, _QUEUE))


def parse_history(stdout: bytes, stderr: bytes, rc: int | None) -> Answer:
    """Jobs that left the queue. `condor_history -json` prints an empty list for none, so 0 bytes are no answer."""
    out, err = text_of(stdout), text_of(stderr)
    if rc != 0:
        return Answer(Source.UNREACHABLE, words=words_of(err) or words_of(out))
    return _answer(out, err, lambda ad: _job(ad, _HISTORY))
