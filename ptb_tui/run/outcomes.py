"""How a step ended, from its exit record: (outcome, cause, why). Pure; standard library alone."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from typing import Any

from ptb_tui.core.states import outcome_of_exit

Outcome = tuple[str, str, str]


def exit_words(record: Mapping[str, Any]) -> str:
    """How a command ended, in words (H §1.9)."""
    number = record.get("signal")
    if isinstance(number, int):
        with contextlib.suppress(ValueError):
            return f"killed by signal {number} ({signal.Signals(number).name})"
        return f"killed by signal {number}"
    code = record.get("rc")
    if code in (143, 137):
        return f"exit status {code}: killed by signal {code - 128}, possibly by itself"
    return "" if code == 0 else f"exit status {code}"


def agent_outcome(record: Mapping[str, Any] | None, cancelled: str) -> Outcome:
    """An agent's end, once its harvest is done. `cancelled` is used when a person stopped it."""
    if record is None:
        return "failed", "host_lost", "the command left no exit record"
    if record.get("problem"):
        return "failed", "sandbox", str(record["problem"])
    stopped = record.get("stopped")
    if stopped == "cancel":
        return "cancelled", "operator", cancelled
    if stopped in ("fence", "signal"):
        return "failed", "fenced" if stopped == "fence" else "preempted", f"stopped by a {stopped}"
    if record.get("oom") and record.get("rc") != 0:
        return "failed", "oom", "the kernel killed it for memory"
    if stopped == "deadline":
        return "done", "agent_budget", ""
    return "done", "" if record.get("rc") == 0 else "agent_exit", exit_words(record)


def program_outcome(record: Mapping[str, Any] | None, result: Mapping[str, Any], kind: str) -> Outcome:
    """The end of one of our own step programs; `result` is what it wrote itself."""
    if record is None:
        return "failed", "host_lost", "the step left no exit record"
    state, reason = outcome_of_exit(record)
    if record.get("stopped") or record.get("oom"):
        if reason == "step_limit" and kind == "judge":
            reason = "judge_timeout"
        return state.value, reason, f"stopped: {record.get('stopped') or 'out of memory'}"
    words = str(result.get("why") or (exit_words(record) if state.value == "failed" else ""))
    return state.value, str(result.get("cause") or reason), words
