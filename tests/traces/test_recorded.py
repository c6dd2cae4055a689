"""Traces of the real CLIs, each driven to one end: what is understood of how it ended and of what it cost."""

from __future__ import annotations

import pytest

from ptb_tui.core.trace import Severity, TraceKind, Usage
from ptb_tui.traces import FAMILIES, endings, index
from tests.traces.samples import DATA, parse, stamped

NONE, ZERO, HALF, WHOLE = Usage(), (0, 0, 0), (200, 40, 1000), (400, 80, 2000)
#   name                        trouble        cause of the end         input, output, cache read
ENDS = {
    "claude.e401.jsonl": ("login", "credential", ZERO),
    "claude.e401.oauth.jsonl": ("login", "credential", ZERO),
    "claude.e401.old.jsonl": ("login", "credential", ZERO),
    "claude.e429.jsonl": ("rate_limit", "provider_limit", ZERO),
    "claude.e500.jsonl": ("server", "provider_error", ZERO),
    "claude.e500.defretry.jsonl": ("server", "provider_error", ZERO),
    "claude.jsonl": ("", "", WHOLE),
    "claude.merged.txt": ("", "", WHOLE),
    "claude.nokey.jsonl": ("login", "credential", ZERO),
    "claude.old.jsonl": ("", "", WHOLE),
    "claude.refused.jsonl": ("network", "provider_unreachable", ZERO),
    "claude.rootcheck.stderr.txt": ("", "", None),
    "claude.sigterm.jsonl": ("", "", (200, 1, 1000)),
    "claude.toolfail.jsonl": ("", "", WHOLE),
    "claude.usage.jsonl": ("quota", "provider_limit", ZERO),
    "claude.usage.old.jsonl": ("quota", "provider_limit", ZERO),
    "claude.usage_plan.jsonl": ("rate_limit", "provider_limit", ZERO),
    "claude.usage_plan.oauth.jsonl": ("usage_limit", "provider_limit", ZERO),
    "claude.usage_plan.old.jsonl": ("usage_limit", "provider_limit", ZERO),
    "codex.e401.jsonl": ("login", "credential", None),
    "codex.e401.judge.jsonl": ("login", "credential", None),
    "codex.e429.jsonl": ("rate_limit", "provider_limit", None),
    "codex.e500.jsonl": ("server", "provider_error", None),
    "codex.jsonl": ("", "", WHOLE),
    "codex.judge.jsonl": ("", "", WHOLE),
    "codex.merged.txt": ("", "", WHOLE),
    "codex.mid_usage.jsonl": ("quota", "provider_limit", None),
    "codex.nokey.jsonl": ("login", "credential", None),
    "codex.refused.jsonl": ("network", "", None),
    "codex.sigterm.jsonl": ("background", "", WHOLE),
    "codex.sigterm.stderr.txt": ("", "", None),
    "codex.toolfail.jsonl": ("", "", WHOLE),
    "codex.usage.jsonl": ("quota", "provider_limit", None),
    "codex.usage_plan.jsonl": ("usage_limit", "provider_limit", None),
    "codex.usage_plan.judge.jsonl": ("usage_limit", "provider_limit", None),
    "gemini.e401.jsonl": ("login", "credential", ZERO),
    "gemini.e429.jsonl": ("rate_limit", "provider_limit", ZERO),
    "gemini.e429.stderr.txt": ("", "", None),
    "gemini.e500.jsonl": ("server", "provider_error", ZERO),
    "gemini.e500.stderr.txt": ("server", "", None),
    "gemini.jsonl": ("", "", WHOLE),
    "gemini.merged.txt": ("", "", WHOLE),
    "gemini.mid_usage.jsonl": ("quota", "provider_limit", HALF),
    "gemini.mid_usage.merged.txt": ("quota", "provider_limit", HALF),
    "gemini.nokey.stderr.txt": ("login", "credential", None),
    "gemini.refused.jsonl": ("", "", None),
    "gemini.refused.stderr.txt": ("network", "", None),
    "gemini.sigterm.jsonl": ("", "", None),
    "gemini.toolfail.jsonl": ("", "", WHOLE),
    "gemini.usage.jsonl": ("quota", "provider_limit", ZERO),
    "gemini.usage.stderr.txt": ("", "", None),
    "opencode.e401.jsonl": ("login", "credential", None),
    "opencode.e429.jsonl": ("rate_limit", "provider_limit", None),
    "opencode.e500.jsonl": ("server", "provider_error", None),
    "opencode.jsonl": ("", "", WHOLE),
    "opencode.merged.txt": ("", "", WHOLE),
    "opencode.mid_usage.jsonl": ("quota", "provider_limit", HALF),
    "opencode.nokey.jsonl": ("", "", WHOLE),
    "opencode.old.jsonl": ("", "", WHOLE),
    "opencode.refused.jsonl": ("network", "provider_unreachable", None),
    "opencode.sigterm.jsonl": ("", "", None),
    "opencode.usage.jsonl": ("quota", "provider_limit", None),
}


def test_every_recorded_trace_has_its_row() -> None:
    names = {path.name for path in DATA.iterdir() if path.name.split(".")[0] in FAMILIES}
    assert names == set(ENDS)


@pytest.mark.parametrize("name", sorted(ENDS))
def test_how_it_ended_and_what_it_cost(name: str) -> None:
    trouble, cause, counts = ENDS[name]
    events = parse(stamped(name), name.split(".")[0])
    troubles = [event.data["trouble"] for event in events if "trouble" in event.data]
    assert (troubles[-1] if troubles else "") == trouble
    assert endings.of(events).get("cause", "") == cause
    usage = index.totals(events)
    assert usage == NONE if counts is None else (usage.input, usage.output, usage.cache_read) == counts
    assert not [event.data["unknown"] for event in events if "unknown" in event.data]
    if cause:
        last = events[-1]
        assert (last.severity is Severity.ERROR and last.kind in (TraceKind.RESULT, TraceKind.ERROR, TraceKind.LIMIT)) \
            or name.endswith(".stderr.txt")  # fmt: skip


def test_a_limit_says_when_it_ends() -> None:
    def resets(name: str) -> object:
        return endings.of(parse(stamped(name), name.split(".")[0])).get("resetsAt")

    assert resets("claude.usage_plan.oauth.jsonl") == 1795972946  # the CLI's own number
    assert resets("claude.usage_plan.old.jsonl") == 1785605040  # "resets 5:24pm (UTC)" after the time of the line
    assert resets("opencode.e429.jsonl") == resets("gemini.e429.jsonl") == 1785574801
