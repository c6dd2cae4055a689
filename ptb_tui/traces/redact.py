"""Secrets out of traces, on bytes, in linear time (H §3.7; case A18). Standard library alone.

A value is found as it is, JSON-escaped (once or twice), URL-encoded and in base64 at all three alignments, also where
line breaks were put into it; well-known shapes of tokens are found without knowing them. Every found piece becomes
`[redacted:NAME]`; line breaks stay, so a redacted text has the lines of the original.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple
from urllib.parse import quote, quote_plus

MIN_VALUE = 6  # characters; shorter values would hit ordinary text
MAX_VALUE = 4096  # characters of a value that are looked for
FIRST_PIECE = 6  # bytes before a line break from which on a broken value is recognised
_TOKEN_LIMIT = 512
_BREAK = rb"(?:\r?\n|\\r\\n|\\n)?"
_PHYSICAL = re.compile(rb"\r?\n")
_TOKENS = (
    ("sk-token", b"sk-", re.compile(rb"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,%d}" % _TOKEN_LIMIT)),
    ("hf-token", b"hf_", re.compile(rb"(?<![A-Za-z0-9_])hf_[A-Za-z0-9]{20,%d}" % _TOKEN_LIMIT)),
    ("github-token", b"gh", re.compile(rb"(?<![A-Za-z0-9_])gh[pousr]_[A-Za-z0-9]{30,%d}" % _TOKEN_LIMIT)),
    ("github-token", b"github_pat_", re.compile(rb"github_pat_[A-Za-z0-9_]{22,%d}" % _TOKEN_LIMIT)),
    ("google-key", b"AIza", re.compile(rb"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}")),
)


class Span(NamedTuple):
    """A piece of a found secret within one line. `first` is False for the further pieces of a broken value."""

    start: int
    end: int
    name: str
    first: bool


def _base64_cores(value: bytes) -> Iterator[bytes]:
    """The characters that the value alone determines, for the three ways its bytes can lie in groups of three."""
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + value)
        first = -(-shift * 8 // 6)
        core = text[first : (shift + len(value)) * 8 // 6]
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))


def encodings(value: str) -> list[bytes]:
    """Every form in which a value is looked for, the value itself first."""
    raw = value.encode("utf-8", "surrogateescape")
    once = [json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    once += [once[0].replace("/", "\\/")]
    twice = [json.dumps(text)[1:-1] for text in once]
    urls = [quote(raw, safe=""), quote(raw), quote_plus(raw)]
    urls += [re.sub("%[0-9A-F]{2}", lambda m: m[0].lower(), url) for url in urls]
    forms = [raw, *(text.encode("utf-8", "surrogateescape") for text in (*once, *twice, *urls)), *_base64_cores(raw)]
    return list(dict.fromkeys(form for form in forms if len(form) >= MIN_VALUE))


def _squeeze(data: bytes) -> bytes:
    return data.translate(None, b"\r\n") if b"\n" in data or b"\r" in data else data


def _fold(squeezed: bytes) -> bytes:
    return squeezed.replace(b"\\r", b"").replace(b"\\n", b"")


class _Needle:
    """One form of one secret."""

    def __init__(self, name: str, form: bytes) -> None:
        self.name = name
        self.text = _squeeze(form)  # breaks are optional everywhere, those of the value included
        self.folded = _fold(self.text)

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        return re.compile(_BREAK.join(re.escape(self.text[i : i + 1]) for i in range(len(self.text))))

    @cached_property
    def start(self) -> re.Pattern[bytes]:
        """The first piece, for finding where an unfinished value begins."""
        return re.compile(_BREAK.join(re.escape(self.text[i : i + 1]) for i in range(FIRST_PIECE)))


def _is_token(token: bytes) -> bool:
    """Whether an `sk-…` word looks random rather than like a name with dashes."""
    digits = sum(48 <= byte <= 57 for byte in token)
    return digits >= 4 or (digits > 0 and token != token.lower() and token != token.upper())


class Redactor:
    """Finds and replaces `secrets` (name: value) and well-known tokens. Values that are placeholders are left out."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        needles: dict[bytes, _Needle] = {}
        for name, value in secrets.items():
            value = value.strip()[:MAX_VALUE]
            if len(value) < MIN_VALUE or value == "UNDEFINED" or value.startswith("your-"):
                continue
            for form in encodings(value):
                needle = _Needle(name, form)
                if len(needle.text) >= MIN_VALUE:
                    needles.setdefault(needle.text, needle)
        self._needles = list(needles.values())
        longest = max((len(needle.text) for needle in self._needles), default=0)
        self.reach = max(5 * longest, _TOKEN_LIMIT + 64)  # no secret stretches over more bytes

    def find(self, data: bytes) -> list[Span]:
        """All secrets in `data`, in order, without overlaps; a secret that is broken over lines gives several."""
        found: list[tuple[int, int, str]] = []
        squeezed = _squeeze(data)
        folded = _fold(squeezed) if b"\\n" in squeezed else None
        for needle in self._needles:
            if needle.text in squeezed or (folded is not None and needle.folded in folded):
                for match in needle.pattern.finditer(data):
                    start, end = match.span()
                    feed = data.find(b"\n", start, end)
                    if feed < 0 or feed - start >= FIRST_PIECE:
                        found.append((start, end, needle.name))
        for name, mark, pattern in _TOKENS:
            if mark in data:
                for match in pattern.finditer(data):
                    if mark != b"sk-" or _is_token(match[0]):
                        found.append((*match.span(), name))
        return _pieces(data, found) if found else []

    def redact(self, data: bytes) -> tuple[bytes, dict[str, int]]:
        """The text without its secrets, and how often each was replaced."""
        spans = self.find(data)
        return replace(data, spans), tally(spans)

    def unfinished(self, data: bytes) -> int:
        """Where a value begins that the next line may go on with; the length of `data` if there is none."""
        window = data[-self.reach :]
        squeezed = _squeeze(window)
        folded = _fold(squeezed)
        starts = [
            match.start()
            for needle in self._needles
            if _ends_within(squeezed, needle.text) or _ends_within(folded, needle.folded)
            for match in needle.start.finditer(window)
            if _begins(needle, window[match.start() :])
        ]
        return len(data) - len(window) + min(starts) if starts else len(data)

    def stream(self, blocks: Iterable[bytes]) -> Iterator[tuple[bytes, list[Span]]]:
        """Cut a long text into parts that no secret crosses, each with its secrets. Memory: a block and `reach`."""
        rest = b""
        for block in blocks:
            rest += block
            cut = len(rest) - 2 * self.reach
            if cut <= 0:
                continue
            spans = self.find(rest)
            for start, end in _whole(spans):
                if start < cut < end:
                    cut = start or end
            yield rest[:cut], [span._replace(end=min(span.end, cut)) for span in spans if span.start < cut]
            rest = rest[cut:]
        if rest:
            yield rest, self.find(rest)


def _ends_within(text: bytes, needle: bytes) -> bool:
    """Whether the text ends with a beginning of the needle that is long enough to be recognised."""
    tail = text[-len(needle) :]
    if needle[:FIRST_PIECE] not in tail:
        return False
    return any(tail.endswith(needle[:size]) for size in range(min(len(needle) - 1, len(tail)), FIRST_PIECE - 1, -1))


def _begins(needle: _Needle, text: bytes) -> bool:
    squeezed = _squeeze(text)
    folded = _fold(squeezed)
    return (len(squeezed) < len(needle.text) and needle.text.startswith(squeezed)) or (
        len(folded) < len(needle.folded) and needle.folded.startswith(folded)
    )


def _pieces(data: bytes, found: list[tuple[int, int, str]]) -> list[Span]:
    found.sort(key=lambda item: (item[0], -item[1]))
    merged: list[tuple[int, int, str]] = []
    for start, end, name in found:
        if merged and start < merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end, merged[-1][2])
        else:
            merged.append((start, end, name))
    spans: list[Span] = []
    for start, end, name in merged:
        position, first = start, True
        for match in _PHYSICAL.finditer(data, start, end):
            spans.append(Span(position, match.start(), name, first))
            position, first = match.end(), False
        spans.append(Span(position, end, name, first))
    return spans


def replace(data: bytes, spans: list[Span]) -> bytes:
    """`data` with each span as `[redacted:NAME]`."""
    if not spans:
        return data
    parts: list[bytes] = []
    position = 0
    for span in spans:
        parts += (data[position : span.start], b"[redacted:" + span.name.encode("utf-8", "replace") + b"]")
        position = span.end
    return b"".join((*parts, data[position:]))


def _whole(spans: list[Span]) -> Iterator[tuple[int, int]]:
    """Beginning and end of each secret, a broken one from its first piece to its last."""
    for number, span in enumerate(spans):
        if span.first:
            end = span.end
            for piece in spans[number + 1 :]:
                if piece.first:
                    break
                end = piece.end
            yield span.start, end


def tally(spans: list[Span]) -> dict[str, int]:
    """How many secrets of each name the spans stand for."""
    counts: dict[str, int] = {}
    for span in spans:
        if span.first:
            counts[span.name] = counts.get(span.name, 0) + 1
    return counts
