"""Documents of files: every input is hostile, every read is bounded, and what was not read is said."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import stat
import zlib
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, Any, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from contamination.fields import parse, strings_of

try:
    import zstandard

    ZSTD_ERRORS: Tuple[Any, ...] = (zstandard.ZstdError,)
except ImportError:
    zstandard, ZSTD_ERRORS = None, ()  # type: ignore[assignment]

MAX_PIECE = 1 << 20  # characters held of one line
MAX_JSON = 32 << 20  # bytes of a .json file that is parsed whole; a larger one is read as text
MAX_FILES = 20_000
BLOCK = 4_000  # lines, or
BLOCK_SIZE = 1 << 18  # characters of text looked at together
OVERLAP = 400  # lines, and
OVERLAP_SIZE = 40_000  # characters repeated at the start of the next block, so that no item is cut in two
BINARY = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".npy", ".npz", ".pkl", ".pickle", ".so", ".pyc")
PACKED = (".gz", ".bz2", ".zst")
ARCHIVES = (".zip", ".tar", ".tgz", ".xz", ".7z", ".eval")
WINDOW = 128 << 20  # bytes of memory that a .zst file may ask for


class Document(NamedTuple):
    """One record or one stretch of text: its strings, and the line where each begins."""

    leaves: List[str]
    lines: List[int]


@dataclass
class Report:
    """What was looked at, and what was not and why."""

    files: int = 0
    documents: int = 0
    not_scanned: List[Tuple[str, str]] = field(default_factory=list)

    def skip(self, name: str, reason: str) -> None:
        """Remember that `name` was not (wholly) scanned."""
        self.not_scanned.append((name, reason))


def open_regular(path: str) -> Optional[IO[bytes]]:
    """A regular file opened without following a link in its last part; None for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return os.fdopen(fd, "rb")


class Capped(io.RawIOBase):
    """At most `limit` bytes of a stream; `cut` says whether there was more."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self.stream, self.left, self.cut = stream, limit, False

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer`; 0 at the end or at the limit."""
        if self.left <= 0:
            self.cut = self.cut or bool(self.stream.read(1))
            return 0
        data = self.stream.read(min(len(buffer), self.left))
        buffer[: len(data)] = data
        self.left -= len(data)
        return len(data)


def numbered(text: IO[str]) -> Iterator[Tuple[int, str]]:
    """(line number, line), overlong lines in pieces that share the number."""
    number, fresh = 0, True
    while True:
        piece = text.readline(MAX_PIECE)
        if not piece:
            return
        number += fresh
        fresh = piece.endswith("\n")
        yield number, piece


def tail(block: List[Tuple[int, str]]) -> List[Tuple[int, str]]:
    """The end of a block, which the next one begins with."""
    kept: List[Tuple[int, str]] = []
    room = OVERLAP_SIZE
    for number, line in reversed(block[-OVERLAP:]):
        kept.insert(0, (number, line[-room:]))
        room -= len(line)
        if room <= 0:
            break
    return kept


def text_blocks(lines: Iterable[Tuple[int, str]]) -> Iterator[Document]:
    """Plain text as overlapping documents."""
    block: List[Tuple[int, str]] = []
    size, new = 0, False
    for number, line in lines:
        block.append((number, line))
        size, new = size + len(line), True
        if len(block) >= BLOCK or size >= BLOCK_SIZE:
            yield Document([text for _, text in block], [at for at, _ in block])
            block, size, new = tail(block), 0, False
    if new:
        yield Document([text for _, text in block], [at for at, _ in block])


def record(value: Any, line: int) -> Document:
    """A JSON value as one document."""
    leaves = strings_of(value)
    return Document(leaves, [line] * len(leaves))


def json_lines(lines: Iterable[Tuple[int, str]]) -> Iterator[Document]:
    """One document a line; a line that is no JSON is read as text."""
    for number, line in lines:
        value = parse(line)
        if value is not None or line.strip():
            yield record(line if value is None else value, number)


def json_whole(value: Any) -> Iterator[Document]:
    """A parsed .json file: the elements of its lists are documents (line: place in the list), the rest is one."""
    lists = [value] if isinstance(value, list) else []
    rest: Any = {}
    if isinstance(value, dict):
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        rest = {key: inner for key, inner in value.items() if not isinstance(inner, list)}
    elif not lists:
        rest = value
    for entries in lists:
        for place, entry in enumerate(entries, 1):
            yield record(entry, place)
    if rest:
        yield record(rest, 1)


def documents(stream: IO[bytes], suffix: str, name: str, report: Report, limit: int) -> Iterator[Document]:
    """The documents of one opened file. Whatever cannot be read ends up in `report`."""
    if suffix in (".parquet", ".arrow"):
        yield from columns(stream, suffix, name, report)
        return
    capped = Capped(stream, limit)
    buffered = io.BufferedReader(capped, 1 << 16)
    head = buffered.peek(4096)[:4096]
    wide = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\0" in head and not wide:
        report.skip(name, "binary")
        return
    text = io.TextIOWrapper(buffered, encoding="utf-16" if wide else "utf-8-sig", errors="replace", newline="\n")
    lines = numbered(text)
    if suffix in (".jsonl", ".ndjson"):
        yield from json_lines(lines)
    elif suffix == ".json":
        whole = text.read(MAX_JSON)
        value = parse(whole)
        if value is not None:
            yield from json_whole(value)
        else:
            yield from text_blocks(chain(numbered(io.StringIO(whole)), lines))
    else:
        yield from text_blocks(lines)
    if capped.cut:
        report.skip(name, "only its first %d MB were scanned" % (limit >> 20))


def columns(stream: IO[bytes], suffix: str, name: str, report: Report) -> Iterator[Document]:
    """Rows of a parquet or arrow file."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        report.skip(name, "needs pyarrow")
        return
    at = 0
    try:
        if suffix == ".parquet":
            batches = pyarrow.parquet.ParquetFile(stream).iter_batches(batch_size=256)
        elif stream.read(6) == b"ARROW1":
            opened = pyarrow.ipc.open_file(stream)
            batches = map(opened.get_batch, range(opened.num_record_batches))
        else:
            stream.seek(0)
            batches = pyarrow.ipc.open_stream(stream)
        for batch in batches:
            for begin in range(0, batch.num_rows, 256):
                for row in batch.slice(begin, 256).to_pylist():
                    at += 1
                    yield record(row, at)
    except (pyarrow.ArrowException, OSError, ValueError):
        report.skip(name, "damaged %s after row %d" % (suffix, at))


def walk(root: str, report: Report) -> Iterator[str]:
    """Files below a folder, by name, links never followed."""
    todo, seen = [root], 0
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            report.skip(folder, "unreadable folder")
            continue
        for entry in entries:
            if entry.is_symlink():
                report.skip(entry.path, "symbolic link")
            elif entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
            elif seen >= MAX_FILES:
                report.skip(root, "more than %d files" % MAX_FILES)
                return
            else:
                seen += 1
                yield entry.path


def unpacked(stream: IO[bytes], suffix: str) -> Any:
    """The stream behind a compressed file."""
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=stream)
    if suffix == ".bz2":
        return bz2.BZ2File(stream)
    return zstandard.ZstdDecompressor(max_window_size=WINDOW).stream_reader(stream, read_across_frames=True)


def read_file(path: str, report: Report, limit: int, as_text: bool = False) -> Iterator[Document]:
    """The documents of the file at `path` by its suffix; .gz, .bz2 and, with `zstandard`, .zst are unpacked."""
    base, suffix = os.path.splitext(path.lower())
    if suffix in BINARY or suffix in ARCHIVES:
        report.skip(path, "binary" if suffix in BINARY else "archive")
        return
    stream = open_regular(path)
    if stream is None:
        report.skip(path, "not a readable regular file")
        return
    report.files += 1
    with stream:
        try:
            if suffix == ".zst" and zstandard is None:
                report.skip(path, "needs zstandard")
            elif suffix in PACKED:
                inner = os.path.splitext(base)[1]
                if inner in (".parquet", ".arrow"):
                    report.skip(path, "a compressed %s file" % inner)
                    return
                yield from documents(unpacked(stream, suffix), inner, path, report, limit)
            else:
                yield from documents(stream, ".txt" if as_text else suffix, path, report, limit)
        except (OSError, EOFError, zlib.error, *ZSTD_ERRORS) as error:
            report.skip(path, "damaged: %s" % type(error).__name__)
