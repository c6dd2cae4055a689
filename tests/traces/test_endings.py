"""How the last session ended, from recordings of the real CLIs and from words that only look like it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind
from ptb_tui.traces import endings, index, parser_for
from tests.traces.samples import DATA

K = TraceKind


def ending(*names: str) -> dict[str, Any]:
    parser = parser_for(names[0].partition(".")[0].partition("_")[0])
    data = b"".join((DATA / name).read_bytes() for name in names)
    return endings.of([*parser.feed(data), *parser.close()])


@pytest.mark.parametrize(
    ("names", "cause", "status"),
    [
        (("claude.e401.jsonl",), "credential", 401),
        (("claude.e401.oauth.jsonl",), "credential", 401),
        (("claude.nokey.jsonl",), "credential", None),
        (("claude.e429.jsonl",), "provider_limit", 429),
        (("claude.usage.jsonl",), "provider_limit", 400),
        (("claude.usage_plan.oauth.jsonl",), "provider_limit", 429),
        (("claude.e500.defretry.jsonl",), "provider_error", 500),
        (("claude.refused.jsonl",), "provider_unreachable", None),
        (("codex.e401.jsonl",), "credential", 401),
        (("codex.nokey.jsonl",), "credential", None),
        (("codex.e429.jsonl",), "provider_limit", 429),
        (("codex.usage.jsonl",), "provider_limit", None),
        (("codex.usage_plan.jsonl",), "provider_limit", None),
        (("codex.mid_usage.jsonl",), "provider_limit", None),
        (("codex.e500.jsonl",), "provider_error", None),
        (("gemini.e401.jsonl",), "credential", 400),
        (("gemini.nokey.stderr.txt",), "credential", None),
        (("gemini.e429.jsonl", "gemini.e429.stderr.txt"), "provider_limit", None),
        (("gemini.usage.jsonl",), "provider_limit", None),
        (("gemini.mid_usage.merged.txt",), "provider_limit", None),
        (("gemini.e500.jsonl",), "provider_error", 500),
        (("opencode.e401.jsonl",), "credential", 401),
        (("opencode.e429.jsonl",), "provider_limit", 429),
        (("opencode.usage.jsonl",), "provider_limit", 429),
        (("opencode.mid_usage.jsonl",), "provider_limit", 429),
        (("opencode.e500.jsonl",), "provider_error", 500),
        (("opencode.refused.jsonl",), "provider_unreachable", None),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_recordings_of_failures(names: Sequence[str], cause: str, status: int | None) -> None:
    found = ending(*names)
    assert found["cause"] == cause and found.get("error_status") == status
    assert bool(found.get("limits")) == (cause == "provider_limit")
    assert bool(found.get("spoke")) == ("mid_" in names[0])


def test_when_a_limit_ends_is_kept() -> None:
    assert ending("claude.usage_plan.oauth.jsonl")["resetsAt"] == 1795972946
    assert ending("codex.usage_plan.jsonl")["resets_clock"] == "16:50"


@pytest.mark.parametrize("names", [("codex.refused.jsonl",), ("gemini.refused.jsonl", "gemini.refused.stderr.txt")])
def test_a_provider_that_is_never_reached(names: Sequence[str]) -> None:
    found = ending(*names)
    assert found["waiting"] == "provider_unreachable" and "cause" not in found and "spoke" not in found


@pytest.mark.parametrize("how", [".toolfail", ".sigterm", ""])
@pytest.mark.parametrize("family", ["claude", "codex", "gemini", "opencode"])
def test_recordings_without_a_failure_of_the_provider(family: str, how: str) -> None:
    name = f"{family}{how}.jsonl"
    if not (DATA / name).exists():
        name = {"claude": "claude.old.jsonl", "codex": "codex_exec_0.144.jsonl", "gemini": "gemini_stream.txt"}.get(
            family, "opencode.jsonl"
        )
    found = ending(name)
    assert found["spoke"] is True and not {"cause", "waiting", "limits"} & set(found)


def fact(kind: TraceKind, severity: Severity = Severity.ERROR, **data: Any) -> TraceEvent:
    return TraceEvent(0, 1, kind, severity=severity, data=data)


SAID = TraceEvent(0, 1, K.TEXT, "You've hit your usage limit. 401 Unauthorized")
LIMIT = fact(K.LIMIT, cause="provider_limit")
TURN = fact(K.RESULT, is_error=True)


@pytest.mark.parametrize(
    ("events", "cause", "limits"),
    [
        ((SAID, TURN), None, 0),  # words of the agent
        ((SAID, LIMIT, TURN), "provider_limit", 1),
        ((LIMIT, LIMIT, TURN), "provider_limit", 1),  # one limit in several lines
        ((LIMIT, SAID, LIMIT, TURN), "provider_limit", 2),
        ((LIMIT, SAID, TURN), None, 1),  # it went on, and failed for something else
        ((SAID, LIMIT, fact(K.RESULT, Severity.INFO)), None, 1),
        ((SAID, LIMIT, TURN, fact(K.INIT, Severity.INFO), SAID), None, 1),  # asked again, and it worked
        ((SAID, fact(K.LIMIT, Severity.WARNING, status="allowed_warning"), TURN), None, 0),
        ((SAID, fact(K.ERROR, cause="model_refusal"), TURN), None, 0),  # a model that declines is a result
        ((SAID, fact(K.ERROR, cause=["provider_limit"], trouble=7), TURN), None, 0),
        ((SAID, fact(K.ERROR, trouble="server"), TURN), "provider_error", 0),
    ],
)
def test_what_ends_a_session(events: Sequence[TraceEvent], cause: str | None, limits: int) -> None:
    found = endings.of(events)
    assert (found.get("cause"), found.get("limits", 0)) == (cause, limits)


def test_attempts_that_nothing_answers() -> None:
    retry = fact(K.RETRY, Severity.WARNING, trouble="server", error_status=529)
    assert endings.of([SAID, retry]) == {
        "spoke": True, "waiting": "provider_error", "trouble": "server", "error_status": 529,
    }  # fmt: skip
    assert "waiting" not in endings.of([retry, SAID])


def test_work_left_in_the_background() -> None:
    left = fact(K.ERROR, Severity.WARNING, trouble="background")
    end = fact(K.RESULT, Severity.INFO, trouble="background")
    assert endings.of([SAID, left, end]) == {"spoke": True, "background": True}
    assert "background" not in endings.of([SAID, left, end, fact(K.INIT, Severity.INFO), SAID])


@given(st.lists(st.binary(max_size=60), max_size=30), st.sampled_from(["claude", "codex", "gemini", "opencode"]))
def test_any_bytes_have_an_ending_and_the_index_knows_it(lines: list[bytes], family: str) -> None:
    parser = parser_for(family)
    events = [*parser.feed(b"\n".join(lines)), *parser.close()]
    rows = [row for event in events if (row := index.decode(index.encode(event).encode())) is not None]
    assert endings.of(rows) == endings.of(events)


def test_the_index_of_a_recording_says_the_same(tmp_path: Path) -> None:
    for path in sorted(DATA.glob("*.jsonl")):
        parser = parser_for(path.name.partition(".")[0].partition("_")[0])
        events = [*parser.feed(path.read_bytes()), *parser.close()]
        (tmp_path / "trace.idx").write_text("".join(map(index.encode, events)), "ascii")
        assert endings.of_index(tmp_path / "trace.idx") == endings.of(events), path.name
    assert endings.of_index(tmp_path / "absent") == {}
