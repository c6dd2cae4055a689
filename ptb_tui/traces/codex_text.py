"""Codex without `--json`: its header and its last line are understood, everything between them is text.

What Codex prints there cannot be told from what the agent's commands print, so nothing else is read from it. A command
may print the words of the last line too: the last such line is Codex's own.
"""

from __future__ import annotations

import re

from ptb_tui.core.trace import TraceEvent, TraceKind
from ptb_tui.traces.jsonlines import EventMaker
from ptb_tui.traces.plain import one_line

_HEAD = b"OpenAI Codex v"
_RULE = b"--------"
_TOKENS = b"tokens used"
_NUMBER = re.compile(rb"[0-9]{1,3}(?:,[0-9]{3}){0,4}|[0-9]{1,15}")


class TextMode:
    """Follows the lines of a text trace. Understands nothing once a JSON line was seen."""

    def __init__(self) -> None:
        self._state = "before"  # head | facts | text | tokens | off

    def stop(self) -> None:
        """The trace has JSON lines."""
        self._state = "off"

    def line(self, make: EventMaker, text: bytes) -> TraceEvent | None:
        """The event of a line that is more than text."""
        text = text.strip()
        state = self._state
        if state == "off":
            return None
        if state == "before":
            self._state = "head" if text.startswith(_HEAD) else state
        elif state in ("head", "facts"):
            if text == _RULE:
                self._state = "facts" if state == "head" else "text"
            elif state == "facts" and text.startswith(b"model: "):
                model = one_line(text[7:].decode("utf-8", "replace"))
                return make(TraceKind.INIT, model, data={"model": model[:200]})
        elif state == "tokens":
            self._state = "text"
            if _NUMBER.fullmatch(text):
                total = int(text.replace(b",", b""))
                return make(TraceKind.RESULT, f"tokens used: {total:,}", data={"total_tokens": total})
        elif text == _TOKENS:
            self._state = "tokens"
        return None
