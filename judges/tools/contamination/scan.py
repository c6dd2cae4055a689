"""Whole inputs against a strict index: as a stream, in several processes, in bounded memory."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import IO, Deque, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from contamination.fields import Match, parse
from contamination.reading import MAX_PIECE, Document, Report, open_regular, read_file, record
from contamination.strict import StrictIndex

CHUNK = 4 << 20  # bytes of JSON lines for one process at a time
TOGETHER, TOGETHER_SIZE = 32, 1 << 16  # records, or bytes of them, that are looked through at once
SMALL = 4 << 20  # bytes of input for which no process is started
LINES = (".jsonl", ".ndjson")


class Piece(NamedTuple):
    """A file, or the lines of one that begin in a range of bytes."""

    path: str
    begin: int = 0
    end: int = -1
    as_text: bool = False


@dataclass
class Found:
    """What a piece held. Lines count from the piece's first."""

    lines: int = 0
    documents: int = 0
    files: int = 0
    hits: List[Tuple[int, List[Match]]] = field(default_factory=list)
    not_scanned: List[Tuple[str, str]] = field(default_factory=list)


def pieces(path: str, limit: int, as_text: bool = False) -> Iterator[Piece]:
    """The pieces of a file: ranges of plain JSON lines, else the file as a whole."""
    if not as_text and os.path.splitext(path.lower())[1] in LINES:
        stream = open_regular(path)
        if stream is not None:
            with stream:
                head, size = stream.read(4096), min(os.fstat(stream.fileno()).st_size, limit)
            if b"\0" not in head and head[:2] not in (b"\xff\xfe", b"\xfe\xff"):
                for begin in range(0, max(size, 1), CHUNK):
                    yield Piece(path, begin, min(begin + CHUNK, size))
                return
    yield Piece(path, as_text=as_text)


def lines_of(stream: IO[bytes], begin: int, end: int) -> Iterator[Tuple[int, bytes]]:
    """(number from 1, line) of the lines that begin in the range; overlong ones in parts that share the number."""
    at = max(0, begin - 1)
    stream.seek(at)
    while at < begin:
        rest = stream.readline(MAX_PIECE)
        at += len(rest)
        if rest.endswith(b"\n") or not rest:
            break
        if at >= end:
            return
    number, fresh = 0, True
    while at < end or not fresh:
        line = stream.readline(MAX_PIECE)
        if not line:
            return
        number += fresh
        at += len(line)
        fresh = line.endswith(b"\n")
        yield number, line


def batches(lines: Iterable[Tuple[int, bytes]]) -> Iterator[List[Document]]:
    """The records of lines, several at a time: that is parsed and looked through faster than one by one."""
    held: List[Tuple[int, str]] = []
    size = 0
    for number, line in lines:
        text = line.decode("utf-8", "replace").strip()
        if text:
            held.append((number, text))
            size += len(text)
        if len(held) >= TOGETHER or size >= TOGETHER_SIZE:
            yield parsed(held)
            held, size = [], 0
    if held:
        yield parsed(held)


def parsed(held: List[Tuple[int, str]]) -> List[Document]:
    """One document a line; a line that is no JSON is read as text."""
    try:
        values = json.loads("[%s]" % ",".join([text for _, text in held]))
    except (ValueError, RecursionError):
        values = []
    if len(values) != len(held):
        values = [parse(text) for _, text in held]
        values = [text if value is None else value for value, (_, text) in zip(values, held, strict=True)]
    return [record(value, number) for value, (number, _) in zip(values, held, strict=True)]


def search_piece(index: StrictIndex, piece: Piece, limit: int) -> Found:
    """Search one piece."""
    found, report = Found(), Report()
    if piece.end < 0:
        for document in read_file(piece.path, report, limit, piece.as_text):
            found.documents += 1
            matches = index.search(document)
            if matches:
                found.hits.append((min(match["line"] for match in matches), matches))
        found.files, found.not_scanned = report.files, report.not_scanned
        return found
    stream = open_regular(piece.path)
    if stream is None:
        found.not_scanned.append((piece.path, "not a readable regular file"))
        return found
    found.files = int(piece.begin == 0)
    with stream:
        if piece.begin == 0 and os.fstat(stream.fileno()).st_size > limit:
            found.not_scanned.append((piece.path, "only its first %d MB were scanned" % (limit >> 20)))
        for batch in batches(_counted(lines_of(stream, piece.begin, piece.end), found)):
            found.documents += len(batch)
            for document in batch if index.suspects(batch) else ():
                matches = index.search(document)
                if matches:
                    found.hits.append((document.lines[0] if document.lines else 1, matches))
    return found


def _counted(lines: Iterable[Tuple[int, bytes]], found: Found) -> Iterator[Tuple[int, bytes]]:
    for number, line in lines:
        found.lines = number
        yield number, line


_given: Optional[Tuple[StrictIndex, int]] = None  # what every process inherits


def _work(piece: Piece) -> Found:
    assert _given is not None
    return search_piece(_given[0], piece, _given[1])


def _outlive_nobody(parent: int) -> None:
    """End this process soon after its parent was killed: it would wait for ever, and keep the parent's output open."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def cores() -> int:
    """Processors that this process may use, at most eight."""
    return max(1, min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))


def search_all(index: StrictIndex, todo: Iterable[Piece], limit: int, jobs: int) -> Iterator[Tuple[Piece, Found]]:
    """Every piece with what it held, in order. OSError when a process was lost, which a lack of memory does."""
    global _given
    waiting, first, size = iter(todo), [], 0
    for piece in waiting:
        first.append(piece)
        size += piece.end - piece.begin if piece.end >= 0 else _size(piece.path)
        if size > SMALL:
            break
    if jobs < 2 or size <= SMALL:
        for piece in (*first, *waiting):
            yield piece, search_piece(index, piece, limit)
        return
    _given = index, limit
    running: Deque[Tuple[Piece, Future[Found]]] = deque()
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _outlive_nobody, (os.getpid(),)) as pool:
        try:
            for piece in (*first, *waiting):
                running.append((piece, pool.submit(_work, piece)))
                if len(running) >= 4 * jobs:
                    piece, future = running.popleft()
                    yield piece, future.result()
            while running:
                piece, future = running.popleft()
                yield piece, future.result()
        except BrokenProcessPool as error:
            raise OSError("a process was ended from outside, perhaps for want of memory; try --jobs 1") from error
        finally:
            for _, future in running:
                future.cancel()
            _given = None


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
