"""The event log of a step: one JSON object a line with its CRC inside; one writer a file (design §5).

A writer opens a new `events[-<n>].jsonl` exclusively; readers take all files, in order of n. Lines whose CRC does not
fit (torn tails) are skipped and counted. Unknown kinds are kept. Standard library alone.
"""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.core import clock
from ptb_tui.core.errors import StorageError

_CRC = re.compile(rb',"crc":"([0-9a-f]{8})"\}$')
_FILE = re.compile(r"events(?:-([1-9][0-9]{0,5}))?\.jsonl")
VERSION = 1


@dataclass(frozen=True, slots=True)
class Event:
    """One event. (`writer`, `seq`) orders the events of a step; wall time `t` is for people only."""

    kind: str
    seq: int
    writer: int = 1
    t: str = ""
    mono: float = 0.0
    boot: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int]:
        """Position within the step."""
        return (self.writer, self.seq)


def encode(kind: str, seq: int, data: Mapping[str, Any], *, now: float | None = None) -> bytes:
    """One line with its newline; `data` must be JSON and must not use the names of the envelope."""
    body = {
        "v": VERSION,
        "seq": seq,
        "kind": kind,
        "t": clock.utc_text(now if now is not None else time.time()),
        "mono": round(clock.monotonic(), 3),
        "boot": clock.boot_id(),
        **data,
    }
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return text[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(text[:-1])


_ENVELOPE = frozenset(("v", "seq", "kind", "t", "mono", "boot", "crc"))


def decode(line: bytes, writer: int = 1) -> Event | None:
    """Read one line; None when it is torn, foreign or damaged."""
    line = line.rstrip(b"\n")
    match = _CRC.search(line)
    if match is None or int(match[1], 16) != zlib.crc32(line[: match.start()]):
        return None
    try:
        body = json.loads(line)
        return Event(
            kind=str(body["kind"]),
            seq=int(body["seq"]),
            writer=writer,
            t=str(body.get("t", "")),
            mono=float(body.get("mono", 0.0)),
            boot=str(body.get("boot", "")),
            data={key: value for key, value in body.items() if key not in _ENVELOPE},
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Log:
    """All readable events of a step in order, and how many lines were not."""

    events: tuple[Event, ...] = ()
    skipped: int = 0


def event_files(folder: Path) -> list[tuple[int, Path]]:
    """The log files of a step with their writer numbers, in order."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = [(int(match[1] or 1), folder / name) for name in names if (match := _FILE.fullmatch(name))]
    return sorted(found)


def read(folder: Path) -> Log:
    """Read every event file of a step folder. An absent folder is an empty log."""
    events: list[Event] = []
    skipped = 0
    for writer, path in event_files(folder):
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError:
            continue
        for line in lines:
            if not line:
                continue
            event = decode(line, writer)
            if event is None:
                skipped += 1
            else:
                events.append(event)
    return Log(tuple(sorted(events, key=lambda event: event.order)), skipped)


class Writer:
    """The only writer of one event file, for its whole life."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        number = max((n for n, _ in event_files(folder)), default=0)
        for attempt in range(number + 1, number + 1000):
            name = "events.jsonl" if attempt == 1 else f"events-{attempt}.jsonl"
            try:
                self._fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            except FileExistsError:
                continue
            self.number, self._seq = attempt, 0
            return
        raise StorageError(
            f"{folder} has too many event files", hint="this run was adopted a thousand times: look at its node"
        )

    def append(self, kind: str, **data: Any) -> None:
        """Append one event durably. OSError when the file system refuses."""
        self._seq += 1
        line = encode(kind, self._seq, data)
        written = os.write(self._fd, line)
        if written < len(line):  # a torn line must not swallow the next one
            os.write(self._fd, line[written:])
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; nothing can be appended afterwards."""
        os.close(self._fd)
