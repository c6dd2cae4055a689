"""Events as the text of `solve_parsed.txt`: for people and judges; every line of the trace is in it.

A structured event is a heading `[time] === KIND …` with its text indented below. Text that the agent's commands
printed can imitate neither: raw lines stand at the margin, and one that begins like a heading gets a `| ` before it.
Characters that could hide text on a terminal are written as escapes.
"""

from __future__ import annotations

import re

from ptb_tui.core.trace import TraceEvent, TraceKind, Usage

_HIDING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_WORDS = {kind: kind.value.replace("_", " ").capitalize() for kind in TraceKind}
_RAW = TraceKind.RAW
_MARGIN = "    "
MARKED = (b"===", b"| ")  # beginnings of raw lines that get a mark
_MARKED = tuple(mark.decode() for mark in MARKED)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def visible(text: str) -> str:
    """The text without characters that hide other text; they become escapes."""
    return text if text.isprintable() else _HIDING.sub(_escape, text)


def render(event: TraceEvent) -> str:
    """The text of one event, with its line feed."""
    stamp = f"[{event.time}] " if event.time else ""
    if event.kind is _RAW:
        text = event.body or event.title
        if not text.isprintable():
            text = _HIDING.sub(_escape, text.replace("\r\n", "\n").replace("\r", "\n"))
            text = text.replace("\n", "\n" + _MARGIN)
        if text.startswith(_MARKED):
            text = "| " + text
        return f"{stamp}{text}\n" if "cut" not in event.data else f"{stamp}{text}\n{_cut(event)}\n"
    lines = [f"{stamp}=== {_heading(event)}"]
    body = event.body.replace("\r\n", "\n").replace("\r", "\n")
    if body:
        if not body.isascii() or not body.replace("\n", "").isprintable():
            body = _HIDING.sub(_escape, body)
        lines.append(_MARGIN + body.replace("\n", "\n" + _MARGIN))
    if event.usage is not None:
        lines.append(_MARGIN + _usage(event.usage))
    if "cut" in event.data:
        lines.append(_cut(event))
    return "\n".join(lines) + "\n"


def _heading(event: TraceEvent) -> str:
    words = [_WORDS[event.kind]]
    if event.tool:
        words.append(visible(event.tool.replace("\n", " ")))
    if event.tool_id:
        words.append(f"({visible(event.tool_id.replace(chr(10), ' '))})")
    title = visible(event.title.replace("\n", " "))
    return " ".join(words) + (f" — {title}" if title else "")


def _usage(usage: Usage) -> str:
    named = (
        ("input", usage.input),
        ("output", usage.output),
        ("cache read", usage.cache_read),
        ("cache write", usage.cache_write),
    )
    parts = [f"{value} {word}" for word, value in named if value is not None]
    text = f"tokens: {', '.join(parts)}" if parts else ""
    cost = f"cost: ${usage.cost_usd:.4f}" if usage.cost_usd is not None else ""
    return "; ".join(part for part in (text, cost) if part)


def _cut(event: TraceEvent) -> str:
    return f"{_MARGIN}[a line of {event.length} bytes, shown in part: solve_out.txt, byte {event.offset}]"
