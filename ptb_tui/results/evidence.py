"""Where in a run's files something stands: bounded reads, no link is followed, total on any content."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ptb_tui.core.text import sanitize
from ptb_tui.core.trace import Severity, TraceEvent, TraceKind
from ptb_tui.results.regular import open_regular
from ptb_tui.traces import parser_for

TRACE_TAIL = 1 << 16  # bytes of a trace's end that are parsed
_SHOWN = 160  # characters of a line
_TEXT = 1 << 14  # characters of one event that are searched
_FILES = 12  # of one pattern
_OWN_WORDS = (TraceKind.ERROR, TraceKind.LIMIT, TraceKind.RAW)
_LAST = 40  # events of a plain trace that are searched: what stands before is the agent's


@dataclass(frozen=True, slots=True)
class Hit:
    """A place. `weak`: text that an agent may have printed."""

    where: str
    words: str
    weak: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.words}" if self.words else self.where


def _shown(text: str) -> str:
    return sanitize(text, limit=_SHOWN, newlines=False).strip()


def _read(path: Path, part: str, limit: int) -> tuple[int, bytes]:
    """(offset, bytes) of one end of a regular file."""
    fd = open_regular(path)
    if fd < 0:
        return 0, b""
    try:
        size = os.fstat(fd).st_size
        offset = 0 if part == "head" else max(0, size - limit)
        return offset, os.pread(fd, limit, offset)
    except OSError:
        return 0, b""
    finally:
        os.close(fd)


def in_file(folder: Path, name: str, pattern: re.Pattern[str], part: str, limit: int) -> Hit | None:
    """The last line of a run's file that fits; with a `*` in the name, of the newest such file that has one."""
    for found in _named(folder, name):
        offset, data = _read(folder / found, part, limit)
        text = data.decode("utf-8", "replace")
        last = None
        for match in pattern.finditer(text):
            last = match
        if last is None:
            continue
        start = text.rfind("\n", 0, last.start()) + 1
        end = text.find("\n", last.end())
        line = text[start : end if end >= 0 else len(text)]
        if offset:
            where = f"{found}, byte {offset + len(text[:start].encode('utf-8', 'replace'))}"
        else:
            where = f"{found}:{text.count(chr(10), 0, start) + 1}"
        return Hit(where, _shown(line if len(line) <= 4 * _SHOWN else last[0]))
    return None


def _named(folder: Path, name: str) -> list[str]:
    if "*" not in name:
        return [name]
    try:
        with os.scandir(folder) as entries:
            found = [(entry.stat(follow_symlinks=False).st_mtime, entry.name) for entry in entries
                     if fnmatch.fnmatchcase(entry.name, name)]  # fmt: skip
    except OSError:
        return []
    return [name for _, name in sorted(found, reverse=True)[:_FILES]]


def exists(folder: Path, name: str) -> Hit | None:
    """A file one level below a run's directory, where no part of the way may be a link."""
    above, _, last = name.rpartition("/")
    try:
        fd = os.open(folder / above, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        info = os.stat(last, dir_fd=fd, follow_symlinks=False)
        return Hit(name, "") if stat.S_ISREG(info.st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)


class TraceTail:
    """The events at the end of a run's trace, read once and only if somebody asks."""

    def __init__(self, folder: Path, family: str) -> None:
        self._folder, self.family = folder, family
        self._events: list[TraceEvent] | None = None
        self.offset = 0

    @property
    def events(self) -> list[TraceEvent]:
        """The events; their offsets count from `offset`."""
        if self._events is None:
            self.offset, data = _read(self._folder / "solve_out.txt", "tail", TRACE_TAIL)
            if self.offset:  # the first line is a part of one
                cut = data.find(b"\n") + 1
                self.offset, data = self.offset + cut, data[cut:]
            parser = parser_for(self.family)
            self._events = [*parser.feed(data), *parser.close()] if data else []
        return self._events

    def where(self, event: TraceEvent) -> str:
        """Where an event stands, in words."""
        return f"solve_out.txt, byte {self.offset + event.offset}"

    def find(self, pattern: re.Pattern[str], *, tools: bool) -> Hit | None:
        """The last of the CLI's own words that fit; with `tools` also what a failed command printed."""
        for event, weak in self._own(tools):
            text = event.body[-_TEXT:] or event.title
            if (match := pattern.search(event.title) or pattern.search(text)) is not None:
                line = next((line for line in match.string.split("\n") if match[0] in line), match[0])
                return Hit(self.where(event), _shown(line if len(line) <= 4 * _SHOWN else match[0]), weak)
        return None

    def _own(self, tools: bool) -> Iterator[tuple[TraceEvent, bool]]:
        events = self.events
        if self.family == "plain" or all(event.kind is TraceKind.RAW for event in events):
            yield from ((event, True) for event in reversed(events[-_LAST:]))
            return
        for event in reversed(events):
            if event.kind is TraceKind.RAW and "reason" in event.data:
                continue  # a broken line of the CLI's may hold an agent's words
            if event.kind in _OWN_WORDS or (event.kind is TraceKind.RESULT and event.severity is Severity.ERROR):
                yield event, False
            elif tools and event.kind is TraceKind.TOOL_RESULT and event.severity is not Severity.INFO:
                yield event, True
