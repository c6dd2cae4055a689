"""How an agent step ends: who ended it, and what counts (docs/decisions/0009)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ptb_tui.core.causes import causes
from ptb_tui.run.outcomes import agent_end, agent_outcome

LIMIT = {"sessions": 1, "cause": "provider_limit", "trouble": "usage_limit", "error_status": 429, "limits": 1}
OFFLINE = {"sessions": 1, "waiting": "provider_unreachable", "trouble": "network"}
SPOKE = {"sessions": 1, "spoke": True}


def record(rc: int | None = 1, **more: Any) -> dict[str, Any]:
    return {"rc": rc, "signal": None, "stopped": "", "elapsed_s": 5.0, **more}


@pytest.mark.parametrize(
    ("exit_record", "ending", "outcome", "cause"),
    [
        (record(0), SPOKE, "done", ""),
        (record(3), SPOKE, "done", "agent_exit"),
        (record(), LIMIT, "failed", "provider_limit"),
        (record(), {**LIMIT, "spoke": True}, "failed", "provider_limit"),  # hours of work, then the limit
        (record(0), LIMIT, "done", ""),  # what a command that ended well says of its provider decides nothing
        (record(stopped="deadline", rc=143), {**LIMIT, **SPOKE}, "done", "agent_budget"),
        (record(), {**SPOKE, "limits": 3}, "done", "agent_exit"),  # it went on after the limits
        (record(stopped="deadline", rc=143), OFFLINE, "failed", "provider_unreachable"),
        (record(stopped="deadline", rc=143), {**OFFLINE, "spoke": True}, "done", "agent_budget"),
        (record(), OFFLINE, "failed", "provider_unreachable"),
        (record(None, signal=9), OFFLINE, "failed", "provider_unreachable"),
        (record(127), {}, "failed", "cli_missing"),
        (record(126), {}, "failed", "cli_missing"),
        (record(127), SPOKE, "done", "agent_exit"),  # it was there, whatever ended it
        (record(127, elapsed_s=3000.0), {}, "done", "agent_exit"),
        (record(127), None, "failed", "cli_missing"),
        (record(stopped="cancel"), LIMIT, "cancelled", "operator"),
        (record(stopped="signal"), LIMIT, "failed", "preempted"),
        (record(oom=True, rc=137), LIMIT, "failed", "oom"),
        (None, LIMIT, "failed", "host_lost"),
    ],
)
def test_who_ended_an_agent(
    exit_record: Mapping[str, Any] | None, ending: Mapping[str, Any] | None, outcome: str, cause: str
) -> None:
    found = agent_outcome(exit_record, "cancelled by somebody", ending)
    assert found[:2] == (outcome, cause)
    assert not cause or cause in causes()


def test_the_words_name_status_and_time() -> None:
    _, _, why = agent_outcome(record(), "", {**LIMIT, "resetsAt": 1795972946})
    assert why == "usage limit, HTTP 429, resets 2026-11-29T17:22:26.000Z"
    _, _, why = agent_outcome(record(), "", {**LIMIT, "resets": "4:50 PM\x1b]0;"})
    assert why == "usage limit, HTTP 429, resets 4:50 PM]0;"
    _, _, why = agent_outcome(record(9), "", {"cause": "provider_error"})
    assert why == "exit status 9"


@pytest.mark.parametrize(
    ("rc", "ending", "flags"),
    [
        (0, SPOKE, None),
        (0, {**SPOKE, "limits": 1}, ["hit a usage limit"]),
        (1, {**SPOKE, "limits": 2}, ["hit a usage limit 2x"]),
        (0, {**SPOKE, "background": True}, ["ended with work left in the background"]),
        (0, {**SPOKE, "waiting": "provider_error"}, ["the provider did not answer at the end"]),
        (1, LIMIT, None),
    ],
)
def test_what_a_person_should_know_besides(rc: int, ending: Mapping[str, Any], flags: list[str] | None) -> None:
    facts = {"model": "ok", "trace": {"lines": 3, "ending": ending}}
    assert agent_end(record(rc), "", facts)[3].get("flags") == flags


@pytest.mark.parametrize("trace", [None, [], {"ending": 7}, {"ending": {"cause": "credential", "resetsAt": "soon"}}])
def test_facts_of_any_shape(trace: object) -> None:
    _, _, _, facts = agent_end(record(), "", {"trace": trace, "flags": "x"})
    assert "resets" not in facts and facts["trace"] == trace
