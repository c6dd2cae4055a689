"""HTCondor's job event log: read in any pieces, folded to one record a job (case F06).

Times in it are local to the schedd and carry no zone, so they stay text. Evidence of strength "scheduler's job log".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from backends.parse.answer import Phase, one_line
from backends.parse.condor import remove_cause
from backends.parse.reasons import hold_cause

LINE_LIMIT = 4096  # bytes of one line that are kept
BODY_LIMIT = 64  # lines of one event that are kept

_HEADER = re.compile(
    rb"(\d{3}) \((\d{1,15})\.(\d{1,9})\.(\d{1,9})\) "
    rb"((?:\d{4}-\d\d-\d\d|\d\d/\d\d)[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?) ?(.*)"
)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event: its number (kept when unknown), its job, the time as written, headline and the lines below it."""

    code: int
    handle: str
    time: str
    headline: str
    body: tuple[str, ...] = ()


class LogReader:
    """Turns pieces of a log into events; how the log is cut into pieces makes no difference. Memory is bounded."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset  # of the next byte to feed
        self.settled = offset  # everything before belongs to events already returned: where a new reader may begin
        self._line = b""
        self._seen = 0  # length of the unfinished line, of which `_line` keeps the beginning
        self._event: tuple[re.Match[bytes], list[bytes]] | None = None

    def feed(self, data: bytes) -> list[LogEvent]:
        """Events that this piece completes."""
        found: list[LogEvent] = []
        *whole, rest = data.split(b"\n")
        for piece in whole:
            begin = self.offset - self._seen
            self.offset += len(piece) + 1
            line = (self._line + piece[: LINE_LIMIT - len(self._line)]).rstrip(b"\r")
            self._line, self._seen = b"", 0
            self._take(line, begin, found)
        self._line += rest[: LINE_LIMIT - len(self._line)]
        self._seen += len(rest)
        self.offset += len(rest)
        return found

    def _take(self, line: bytes, begin: int, found: list[LogEvent]) -> None:
        if line == b"...":
            self._finish(self.offset, found)
        elif header := _HEADER.fullmatch(line):
            self._finish(begin, found)  # a writer died inside the event before: its headline still says what happened
            self._event = (header, [])
        elif self._event is not None and len(self._event[1]) < BODY_LIMIT:
            self._event[1].append(line)

    def _finish(self, settled: int, found: list[LogEvent]) -> None:
        if self._event is not None:
            header, body = self._event
            found.append(
                LogEvent(
                    code=int(header[1]),
                    handle=f"{int(header[2])}.{int(header[3])}",
                    time=header[5].decode(),
                    headline=one_line(header[6].decode("utf-8", "replace")),
                    body=tuple(one_line(text.strip().decode("utf-8", "replace")) for text in body),
                )
            )
        self._event = None
        self.settled = settled


@dataclass(frozen=True, slots=True)
class JobLog:
    """What the log says of one job. `starts` counts EXECUTE events: two mean that it began a second time.

    `disconnected`: its node is out of sight since the last event; a flag, never a phase.
    """

    handle: str
    phase: Phase = Phase.QUEUED
    starts: int = 0
    disconnected: bool = False
    host: str = ""
    reason: str = ""
    cause: str = ""
    next: str = ""
    exit_code: int | None = None
    signal: int | None = None
    queued: str = ""
    started: str = ""
    ended: str = ""


_CODES = re.compile(r"Code (-?\d{1,6}) Subcode (-?\d{1,9})")
_NORMAL = re.compile(r"\(1\) Normal termination \(return value (-?\d{1,6})\)")
_SIGNAL = re.compile(r"\(0\) Abnormal termination \(signal (\d{1,6})\)")
_HOST = re.compile(r"(?:SlotName: |Job executing on host: )(\S+)")


def _first(pattern: re.Pattern[str], event: LogEvent) -> re.Match[str] | None:
    return next((hit for line in (*event.body, event.headline) if (hit := pattern.search(line))), None)


def _said(event: LogEvent) -> str:
    return next((line for line in event.body if line and not _CODES.fullmatch(line)), "")


def apply(job: JobLog, event: LogEvent) -> JobLog:
    """The record after one more event. An end absorbs everything after it; unknown codes change nothing."""
    if job.phase is Phase.ENDED:
        return job
    idle = replace(job, phase=Phase.QUEUED, disconnected=False)
    clean = replace(job, disconnected=False, reason="", cause="", next="")
    match event.code:
        case 0:
            return replace(job, queued=event.time)
        case 1:
            host = _first(_HOST, event)
            return replace(
                clean,
                phase=Phase.RUNNING,
                starts=job.starts + 1,
                host=host[1] if host else "",
                started=event.time,
            )
        case 4 | 7 | 24:  # evicted, shadow exception, node lost; a hold that was written first stays
            if job.phase is Phase.HELD:
                return replace(job, disconnected=False)
            return replace(idle, reason=_said(event) if event.code != 4 else job.reason)
        case 5:
            code, signal = _first(_NORMAL, event), _first(_SIGNAL, event)
            return replace(
                clean,
                phase=Phase.ENDED,
                exit_code=int(code[1]) if code else None,
                signal=int(signal[1]) if signal else None,
                ended=event.time,
            )
        case 9:
            reason = _said(event)
            return replace(clean, phase=Phase.ENDED, reason=reason, cause=remove_cause(reason), ended=event.time)
        case 10 if job.phase is Phase.RUNNING:
            return replace(job, phase=Phase.SUSPENDED)
        case 11 if job.phase is Phase.SUSPENDED:
            return replace(job, phase=Phase.RUNNING)
        case 12:
            reason, codes = _said(event), _first(_CODES, event)
            why = hold_cause(int(codes[1]) if codes else None, int(codes[2]) if codes else None, reason)
            return replace(clean, phase=Phase.HELD, reason=reason or why.words, cause=why.cause, next=why.next)
        case 13 if job.phase is Phase.HELD:
            return replace(clean, phase=Phase.QUEUED)
        case 22:
            return replace(job, disconnected=True)
        case 23:
            return replace(job, disconnected=False)
        case _:
            return job


def fold(events: Iterable[LogEvent], known: Mapping[str, JobLog] | None = None) -> dict[str, JobLog]:
    """Records by job, going on from `known`; one log may hold many jobs."""
    jobs = dict(known or {})
    for event in events:
        jobs[event.handle] = apply(jobs.get(event.handle, JobLog(event.handle)), event)
    return jobs
