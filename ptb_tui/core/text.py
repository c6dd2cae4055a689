"""Untrusted text becomes `SafeText`: what a terminal, a log line or a table may show.

Everything an agent, a judge or a scheduler can write passes here once before a person sees it (cases H01, H02).
Standard library alone.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # OSC: titles, links, clipboard
    r"|\x1b[PX^_][^\x1b]{0,4096}(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI
    r"|\x9b[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
# C0 (but tab and newline), DEL, C1, bidi controls, zero width and invisible format characters, lone surrogates
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


class SafeText(str):
    """Text without control, escape, bidi and invisible characters. Made only by `sanitize`."""

    __slots__ = ()


def sanitize(text: str | bytes, *, limit: int | None = None, newlines: bool = True) -> SafeText:
    """Make text safe to show.

    Bytes are read as UTF-8, bad ones replaced. `limit` cuts to that many characters and marks the cut with "…".
    With `newlines=False` line breaks and tabs become single spaces, for use inside one line.
    Idempotent: `sanitize(sanitize(x)) == sanitize(x)` for equal arguments.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if text.isascii() and text.isprintable() and (limit is None or len(text) <= limit):
        return SafeText(text)  # nearly every text
    if limit is not None and len(text) > 8 * limit + 8192:  # bound the work on megabyte lines
        text = text[: 8 * limit + 8192]
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    while True:  # removing one sequence may join the halves of another
        cleaned = _UNSAFE.sub("", _ESCAPES.sub("", text))
        if cleaned == text:
            break
        text = cleaned
    if not newlines:
        text = re.sub(r"[\n\t]+", " ", text)
    if limit is not None and len(text) > limit:
        text = text[: max(0, limit - 1)] + "…"
    return SafeText(text)
