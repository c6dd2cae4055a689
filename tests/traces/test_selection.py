"""The parser is what the agent declares, never a part of its name (H appendix B.2)."""

from __future__ import annotations

import pytest

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.traces import FAMILIES, parser_for
from ptb_tui.traces.plain import PlainParser

FAMILY = {
    "claude": ("claude", "claude_non_api", "claude_non_api_max", "claude_reprompt", "glm5", "glmx", "kimi_claude",
               "qwen3max"),
    "codex": ("codex", "codex_non_api", "codex_non_api_high", "codex_non_api_max", "codex_non_api_reprompt",
              "codex_non_api_xhigh", "codex_non_api_high_reprompt", "codex_non_api_xhigh_reprompt", "codex_xhigh",
              "codex_xhigh_reprompt"),
    "cursor": ("cursor_cli",),
    "gemini": ("gemini",),
    "grok": ("grok_cli",),
    "opencode": ("opencode",),
}  # fmt: skip


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, names in FAMILY.items() for name in names])
def test_agents_of_the_original(family: str, name: str) -> None:
    agent = load_agent(Content.of(), name)
    assert agent.trace == family
    assert type(parser_for(agent.trace)) is FAMILIES[family]


@pytest.mark.parametrize("family", ["", "mcode", "claude_codex"])
def test_an_unknown_family_is_text(family: str) -> None:
    assert isinstance(parser_for(family), PlainParser)
