"""Traces of agents: one incremental parser per CLI family, rendering, row index and redaction (design §6, H §3)."""

from ptb_tui.core.trace import TraceParser
from ptb_tui.traces.claude import ClaudeParser
from ptb_tui.traces.codex import CodexParser
from ptb_tui.traces.cursor import CursorParser
from ptb_tui.traces.gemini import GeminiParser
from ptb_tui.traces.grok import GrokParser
from ptb_tui.traces.jsonlines import JsonLinesParser
from ptb_tui.traces.opencode import OpenCodeParser
from ptb_tui.traces.plain import PlainParser

__all__ = ["FAMILIES", "parser_for"]

FAMILIES: dict[str, type[JsonLinesParser] | type[PlainParser]] = {
    "claude": ClaudeParser,
    "codex": CodexParser,
    "cursor": CursorParser,
    "gemini": GeminiParser,
    "grok": GrokParser,
    "opencode": OpenCodeParser,
    "plain": PlainParser,
}


def parser_for(family: str) -> TraceParser:
    """A new parser for a CLI family (`trace` in `agent.toml`); an unknown family is read as plain text."""
    return FAMILIES.get(family, PlainParser)()
