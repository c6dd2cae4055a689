"""Where words go: stdout is data (one JSON object a line with `--json`), stderr is for people (design §9).

No control codes unless stdout is a terminal that wants them: `NO_COLOR`, `TERM=dumb`, an unset `TERM` and `--json` turn
them off. Every text passes `sanitize` here; nothing is ever read as markup.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO, cast

from ptb_tui.core.text import sanitize
from ptb_tui.present.table import Span, Table, lay_out

COLOURS = {
    "bold": "1",
    "grey": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
}
LINE_LIMIT = 4000  # characters of one line of prose


class ReaderGone(Exception):
    """Whoever read our stdout went away; no error: `| head` has seen enough."""


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is an open terminal."""
    try:
        return stream.isatty()
    except (ValueError, OSError):
        return False


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def encode(record: Mapping[str, Any]) -> str:
    """One JSON object in one line of ASCII, its version first; numbers JSON has no word for become null."""
    body = {"v": 1, **record}
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(body), separators=(",", ":"))


class Output:
    """The two streams of one command."""

    def __init__(self, *, as_json: bool = False, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr
        self.as_json = as_json
        self.terminal = is_terminal(self.stdout)
        self.controls = self.terminal and not as_json and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
        self.colour = self.controls and not os.environ.get("NO_COLOR")
        encoding = (getattr(self.stdout, "encoding", None) or "ascii").lower().replace("-", "")
        self.ascii_only = encoding not in ("utf8", "utf16", "utf32")
        for stream in (self.stdout, self.stderr):
            with contextlib.suppress(AttributeError, ValueError, OSError):
                cast(io.TextIOWrapper, stream).reconfigure(errors="replace")

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None off a terminal, where nothing is cut."""
        return max(40, shutil.get_terminal_size((80, 24)).columns) if self.terminal else None

    @property
    def height(self) -> int:
        """Lines of the terminal."""
        return max(6, shutil.get_terminal_size((80, 24)).lines)

    def paint(self, line: Sequence[Span]) -> str:
        """Pieces joined, with colour where colour is wanted."""
        if not self.colour:
            return "".join(span.text for span in line)
        return "".join(
            f"\x1b[{COLOURS[span.colour]}m{span.text}\x1b[0m" if span.colour in COLOURS and span.text else span.text
            for span in line
        )

    def write(self, text: str) -> None:
        """Write finished text to stdout. ReaderGone when nobody reads it."""
        try:
            self.stdout.write(text)
            self.stdout.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error

    def line(self, text: str = "", colour: str = "", *, indent: int = 0) -> None:
        """One line of data for people; untrusted text is welcome."""
        safe = sanitize(text, limit=LINE_LIMIT, newlines=False)
        self.write(" " * indent + self.paint([Span(safe, colour)]) + "\n")

    def spans(self, lines: Sequence[Sequence[Span]], *, indent: int = 0) -> None:
        """Lines of coloured pieces that are safe already."""
        self.write("".join(" " * indent + self.paint(line).rstrip() + "\n" for line in lines))

    def table(self, table: Table, *, indent: int = 0) -> None:
        """A table, cut to the terminal."""
        width = self.width
        self.spans(lay_out(table, None if width is None else width - indent), indent=indent)

    def record(self, record: Mapping[str, Any]) -> None:
        """One JSON object."""
        self.write(encode(record) + "\n")

    def note(self, text: str) -> None:
        """One line for people, on stderr; a closed stderr is nobody's loss."""
        with contextlib.suppress(OSError, ValueError):
            self.stderr.write(sanitize(text, limit=LINE_LIMIT, newlines=False) + "\n")
            self.stderr.flush()
