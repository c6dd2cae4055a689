"""From raw output and the times of its bytes to stamped, redacted lines. A function of both alone: writing a part of
it again gives the same bytes, whoever was killed in between and however the output arrived."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from ptb_tui.traces.lines import stamp
from ptb_tui.traces.marks import MarkReader
from ptb_tui.traces.redact import Redactor, Span, replace, tally

BATCH = 1 << 20  # bytes looked at together; a longer line goes through in parts


class Part(NamedTuple):
    """Some stamped text, and what it was made of."""

    text: bytes
    raw: bytes
    lines: int
    redacted: dict[str, int]


class Transcriber:
    """Reads raw output (`fd`) from `offset`, which must be the beginning of a line."""

    def __init__(self, fd: int, marks: MarkReader, redactor: Redactor, offset: int = 0, batch: int = BATCH) -> None:
        self._fd, self._marks, self._redactor = fd, marks, redactor
        self.offset = offset
        self._batch = max(batch, 4 * redactor.reach)
        self._scanned = 0  # no line feed between offset and here

    def redact_with(self, redactor: Redactor) -> None:
        """Another redactor for what is taken from here on."""
        self._redactor, self._batch = redactor, max(self._batch, 4 * redactor.reach)

    def take(self, end: int | None, most: int | None = None) -> Iterator[Part]:
        """The next whole lines, if there are any; `offset` is moved when the last part was taken. `end` is the size of
        the output once that is final; then an unfinished last line is given too. `most`: nothing beyond it."""
        limit = min(size for size in (end, most, self._marks.known()) if size is not None)
        if limit <= self.offset:
            return
        if self._scanned > self.offset:
            yield from self._long_line(limit, end)
            return
        chunk = self._read(self.offset, min(limit, self.offset + self._batch))
        full = len(chunk) == self._batch
        if self.offset + len(chunk) == end:
            yield self._part(chunk, self._redactor.find(chunk))
            self.offset += len(chunk)
            return
        complete = chunk.rfind(b"\n") + 1
        if not complete:
            if full:
                yield from self._long_line(limit, end)
            return
        chunk = chunk[:complete]
        spans = self._redactor.find(chunk)
        cut = _before_secret(chunk, spans, self._redactor.unfinished(chunk))
        if not cut:
            if not full:
                return  # the next line may complete a secret that this one begins
            cut = complete
        yield self._part(chunk[:cut], [span for span in spans if span.start < cut])
        self.offset += cut

    def _read(self, start: int, end: int) -> bytes:
        parts: list[bytes] = []
        while start < end and (data := os.pread(self._fd, end - start, start)):
            parts.append(data)
            start += len(data)
        return b"".join(parts)

    def _blocks(self, start: int, end: int) -> Iterator[bytes]:
        for position in range(start, end, self._batch):
            yield self._read(position, min(end, position + self._batch))

    def _part(self, chunk: bytes, spans: list[Span]) -> Part:
        texts: list[bytes] = []
        position = used = 0
        while position < len(chunk):
            feed = chunk.find(b"\n", position)
            line_end = feed + 1 if feed >= 0 else len(chunk)
            size, time = self._marks.reach(self.offset + line_end)
            reached = size - self.offset
            end = len(chunk) if reached >= len(chunk) else chunk.rfind(b"\n", position, reached) + 1
            here: list[Span] = []
            while used < len(spans) and spans[used].start < end:
                span = spans[used]
                here.append(span._replace(start=span.start - position, end=span.end - position))
                used += 1
            texts.append(_stamped(replace(chunk[position:end], here), stamp(time)))
            position = end
        lines = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
        return Part(b"".join(texts), chunk, lines, tally(spans))

    def _long_line(self, limit: int, end: int | None) -> Iterator[Part]:
        """One line that is longer than a batch, in parts."""
        position = max(self._scanned, self.offset)
        found = -1
        while position < limit and found < 0:
            block = self._read(position, min(limit, position + self._batch))
            found = block.find(b"\n")
            position += len(block) if found < 0 else found + 1
        self._scanned = position
        if found < 0 and position != end:
            return
        _, time = self._marks.reach(position)
        yield Part(stamp(time), b"", 1, {})
        for raw, spans in self._redactor.stream(self._blocks(self.offset, position)):
            yield Part(replace(raw, spans), raw, 0, tally(spans))
        self.offset, self._scanned = position, 0


def _stamped(text: bytes, prefix: bytes) -> bytes:
    if text.endswith(b"\n"):
        return prefix + text[:-1].replace(b"\n", b"\n" + prefix) + b"\n"
    return prefix + text.replace(b"\n", b"\n" + prefix)


def _before_secret(chunk: bytes, spans: list[Span], unfinished: int) -> int:
    """The last beginning of a line where neither an unfinished nor a broken secret is cut."""
    cut = len(chunk) if unfinished == len(chunk) else chunk.rfind(b"\n", 0, unfinished) + 1
    last: int | None = None  # beginning of the last piece of the secret at hand
    for span in reversed(spans):
        last = span.start if last is None else last
        if span.first:
            if span.start < cut <= last:
                cut = chunk.rfind(b"\n", 0, span.start) + 1
            elif last < cut:
                break
            last = None
    return cut
