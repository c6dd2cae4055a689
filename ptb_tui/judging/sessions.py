"""What a judge's session left behind, read once: its trace, tokens and last words. Pure; the bytes are hostile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ptb_tui.core.text import sanitize
from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces import endings, index, parser_for
from ptb_tui.traces.redact import Redactor
from ptb_tui.traces.render import render


@dataclass(frozen=True, slots=True)
class Session:
    """`raw` and `text` are without secrets; `ending` is that of `traces.endings`; `words` its last error, or "" ."""

    raw: bytes
    text: str
    usage: Usage
    ending: Mapping[str, Any]
    words: str
    redacted: Mapping[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> dict[str, int]:
        """Counts that are known."""
        usage = self.usage
        pairs = (
            ("input", usage.input),
            ("output", usage.output),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write),
        )
        return {name: count for name, count in pairs if count is not None}


def read_session(output: bytes, secrets: Mapping[str, str], family: str = "codex") -> Session:
    """Read everything that a CLI printed in one session."""
    raw, redacted = Redactor(secrets).redact(output)
    parser = parser_for(family)
    events = [*parser.feed(raw), *parser.close()]
    return Session(
        raw, "".join(map(render, events)), index.totals(events), endings.of(events), _last_words(events), redacted
    )


def _last_words(events: list[TraceEvent]) -> str:
    errors = [event for event in events if event.severity is Severity.ERROR and event.kind is not TraceKind.TOOL_RESULT]
    plain = [event for event in events if event.kind is TraceKind.RAW and event.title.strip()]
    last = (errors or plain)[-1:] or [TraceEvent(0, 0, TraceKind.RAW)]
    return sanitize(last[0].title, limit=300, newlines=False)
