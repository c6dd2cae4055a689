"""Text that may be given away: known secrets out, then what looks like one, then a warning of what may be left.

H §3.7 and §7.12, passes 1, 1b, 2 and 3, on bytes and in constant memory. Pass 1 is `traces.redact`: values as they are,
escaped, URL-encoded, in base64 and broken over lines. Every found piece becomes `[redacted:NAME]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ptb_tui.traces.redact import Redactor, replace, tally

BEGINNING = 10  # characters of a known secret that give another one away (pass 1b)
PART = 1 << 20  # bytes that are looked at together
_REACH = 4096  # bytes of a long line that are kept for the next part
WARNINGS = 50  # of one file
_CONTEXT = 50  # characters before a warning; what follows is never shown
_WORD = rb"[A-Za-z0-9_.-]"
_SHAPES = (  # pass 2
    ("sk-proj-key", rb"sk-proj-[A-Za-z0-9_-]{12,}"),
    ("sk-ant-key", rb"sk-ant-(?:api|admin|oat|ort|sid)[0-9]{2}-[A-Za-z0-9_-]{12,}"),
    ("sk-or-key", rb"sk-or-v[0-9]+-[A-Za-z0-9]{20,}"),
    ("sk-key", rb"\bsk-(?!proj-|ant-|or-)[A-Za-z0-9_-]{40,}"),
    ("google-key", rb"AIzaSy[A-Za-z0-9_-]{20,}"),
    ("hf-token", rb"\bhf_[A-Za-z0-9]{20,}"),
    ("xai-key", rb"\bxai-[A-Za-z0-9]{40,}"),
    ("zai-key", rb"\b[0-9a-f]{32}\.[A-Za-z0-9]{12,}\b"),
    ("login-token", rb"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("login-token", rb"((?:access|refresh|id)_?[tT]oken\\{0,3}\"\s{0,3}:\s{0,3}\\{0,3}\")(?!\[redacted:)[^\"\\\s]{6,}"),
    ("google-login", rb"\bya29\.[A-Za-z0-9_-]{20,}"),
    ("github-token", rb"\bgh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}"),
)
_RESIDUE = re.compile(rb"sk-proj|sk-ant|AIzaSy|sk-or-")  # pass 3
_MADE = re.compile(rb"\[redacted:[^\]\n]{1,80}\]")


@dataclass(slots=True)
class Report:
    """What was done to one text."""

    replaced: dict[str, int] = field(default_factory=dict)
    warnings: list[dict[str, object]] = field(default_factory=list)  # line, found, before

    def count(self, found: Mapping[str, int]) -> None:
        """Add to what was replaced."""
        for name, number in found.items():
            self.replaced[name] = self.replaced.get(name, 0) + number


class Sanitiser:
    """Takes secrets out of texts. `secrets`: name and value."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._redactor = Redactor(secrets)
        shapes = [*_SHAPES]
        for name, value in sorted(secrets.items()):
            start = value.strip()[:BEGINNING].encode("utf-8", "surrogateescape")
            if len(value.strip()) > BEGINNING and re.fullmatch(_WORD + rb"+", start):
                shapes.append((f"like {name}", rb"(?<![A-Za-z0-9_])" + re.escape(start) + _WORD + rb"*"))
        self._shapes = [(name, re.compile(pattern)) for name, pattern in shapes]

    def text(self, data: bytes) -> tuple[bytes, Report]:
        """A whole text."""
        report = Report()
        return b"".join(self.stream([data], report)), report

    def stream(self, blocks: Iterable[bytes], report: Report) -> Iterator[bytes]:
        """A text in parts; `report` is complete when the last part was taken."""
        rest, line = b"", 1
        for part, spans in self._redactor.stream(blocks):
            report.count(tally(spans))
            rest += replace(part, spans)
            if len(rest) >= PART:
                cut = _cut(rest)
                done = self._shaped(rest[:cut], report)
                _warn(done, line, report)
                line += done.count(b"\n")
                yield done
                rest = rest[cut:]
        done = self._shaped(rest, report)
        _warn(done, line, report)
        yield done

    def _shaped(self, data: bytes, report: Report) -> bytes:
        for name, pattern in self._shapes:
            mark = f"[redacted:{name}]".encode("utf-8", "replace").replace(b"\\", rb"\\")
            data, number = pattern.subn(rb"\g<1>" * pattern.groups + mark, data)
            if number:
                report.count({name: number})
        return data


def _cut(data: bytes) -> int:
    """Where a text may be cut in two: after its last line feed, else where no word is."""
    if feed := data.rfind(b"\n") + 1:
        return feed
    start = max(0, len(data) - _REACH)
    if (gap := max(data.rfind(b" ", start), data.rfind(b",", start))) > start:
        return gap
    return next((at for at in range(len(data) - 1, start, -1) if not re.match(_WORD, data[at : at + 1])), len(data))


def _warn(data: bytes, line: int, report: Report) -> None:
    if len(report.warnings) >= WARNINGS or _RESIDUE.search(data) is None:
        return
    plain = _MADE.sub(lambda match: b"." * len(match[0]), data)
    for match in _RESIDUE.finditer(plain):
        start = data.rfind(b"\n", max(0, match.start() - _CONTEXT), match.start()) + 1
        before = data[max(start, match.start() - _CONTEXT) : match.start()].decode("utf-8", "replace")
        found = {"line": line + data.count(b"\n", 0, match.start()), "found": match[0].decode(), "before": before}
        report.warnings.append(found)
        if len(report.warnings) >= WARNINGS:
            return
