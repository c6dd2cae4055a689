"""What the bytes of a stamped trace add to `solve_parsed.txt` and `trace.idx`.

Text families take a short way: a block of ordinary lines is its own rendering. It gives the same bytes as parsing,
rendering and indexing every line, several times as fast.
"""

from __future__ import annotations

from typing import Protocol

from ptb_tui.core.trace import TraceEvent, TraceParser
from ptb_tui.traces import FAMILIES, index, parser_for
from ptb_tui.traces.lines import LIMIT
from ptb_tui.traces.plain import PlainParser
from ptb_tui.traces.render import MARKED, render

Written = tuple[bytes, bytes]  # text, rows


class Pages(Protocol):
    """Incremental; the concatenated results are the same for any split of the input."""

    def feed(self, data: bytes) -> Written:
        """Text and rows of the lines that are now complete."""
        ...

    def close(self) -> Written:
        """Text and rows of an unfinished last line."""
        ...


def pages_for(family: str) -> Pages:
    """New pages for a CLI family."""
    return _TextPages() if FAMILIES.get(family, PlainParser) is PlainParser else _EventPages(parser_for(family))


def write(events: list[TraceEvent]) -> Written:
    """Text and rows of events."""
    return (
        "".join(map(render, events)).encode("utf-8", "replace"),
        "".join(map(index.encode, events)).encode("ascii"),
    )


class _EventPages:
    def __init__(self, parser: TraceParser) -> None:
        self._parser = parser

    def feed(self, data: bytes) -> Written:
        return write(self._parser.feed(data))

    def close(self) -> Written:
        return write(self._parser.close())


class _TextPages:
    def __init__(self) -> None:
        self._parser = PlainParser()

    def feed(self, data: bytes) -> Written:
        parser = self._parser
        start = 0 if parser.between_lines else data.find(b"\n") + 1
        end = data.rfind(b"\n") + 1
        block = data[start:end] if start or parser.between_lines else b""
        if not block or not _ordinary(block):
            return write(parser.feed(data))
        text, rows = write(parser.feed(data[:start])) if start else (b"", b"")
        found = _rows(block, parser.skip(block))
        parser.feed(data[end:])
        return text + block, rows + found

    def close(self) -> Written:
        return write(self._parser.close())


def _ordinary(block: bytes) -> bool:
    """Whether every line of a block is rendered as it is."""
    if len(block) > LIMIT or block.startswith(MARKED) or any(b"] " + mark in block for mark in MARKED):
        return False
    if any(b"\n" + mark in block for mark in MARKED):
        return False
    try:
        return block.decode().replace("\n", "").isprintable()
    except UnicodeDecodeError:
        return False


def _rows(block: bytes, offset: int) -> bytes:
    rows: list[str] = []
    for size in map(len, block[:-1].split(b"\n")):
        rows.append(f'{{"o":{offset},"n":{size},"k":"raw"}}\n')
        offset += size + 1
    return "".join(rows).encode("ascii")
