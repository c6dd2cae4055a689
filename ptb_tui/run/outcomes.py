"""How a step ended, from its exit record: (outcome, cause, why). Pure; standard library alone."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from typing import Any

from ptb_tui.core import clock
from ptb_tui.core.states import outcome_of_exit
from ptb_tui.run.gpu_check import STATUS

Outcome = tuple[str, str, str]
NOT_STARTED = (126, 127)  # what a shell says of a command that it cannot start or find
NOT_STARTED_S = 600.0  # an agent that ran longer has started whatever it says


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


def provider_words(ending: Mapping[str, Any]) -> str:
    """What is known of a provider's refusal, in words of ours: kind, HTTP status, when to come back."""
    parts = [str(ending["trouble"]).replace("_", " ")] if ending.get("trouble") else []
    parts += [f"HTTP {ending['error_status']}"] if isinstance(ending.get("error_status"), int) else []
    moment, said = ending.get("resetsAt"), ending.get("resets")
    if isinstance(moment, int) and 0 < moment < 1 << 36:
        parts.append(f"resets {clock.utc_text(moment)}")
    elif isinstance(said, str):
        parts.append(f"resets {''.join(char for char in said if char.isprintable())}")
    return ", ".join(parts)


def agent_flags(ending: Mapping[str, Any], outcome: str) -> list[str]:
    """What a person should know of a session that counts all the same."""
    flags = []
    limits = ending.get("limits")
    if outcome == "done" and isinstance(limits, int) and limits > 0:
        flags.append("hit a usage limit" if limits == 1 else f"hit a usage limit {limits}x")
    if outcome == "done" and ending.get("waiting"):
        flags.append("the provider did not answer at the end")
    if ending.get("background"):
        flags.append("ended with work left in the background")
    return flags


def agent_outcome(record: Mapping[str, Any] | None, cancelled: str, ending: Mapping[str, Any] | None = None) -> Outcome:
    """An agent's end, once its harvest is done. `cancelled` is used when a person stopped it; `ending` is how its last
    session ended (`traces.endings`), which decides only for a command that failed (docs/decisions/0009)."""
    ending = ending or {}
    if record is None:
        return "failed", "host_lost", "the command left no exit record"
    if record.get("problem"):
        return "failed", "sandbox", str(record["problem"])
    stopped = record.get("stopped")
    if stopped == "cancel":
        return "cancelled", "operator", cancelled
    if stopped in ("fence", "signal"):
        return "failed", "fenced" if stopped == "fence" else "preempted", f"stopped by a {stopped}"
    if stopped == "disk_full":
        return "failed", "disk_full", "stopped: its scratch held more than a run may use here"
    if record.get("oom") and record.get("rc") != 0:
        return "failed", "oom", "the kernel killed it for memory"
    if record.get("full") and record.get("rc") != 0 and not stopped:
        return "failed", "disk_full", "the disk of its scratch was full when it failed"
    waited = "" if ending.get("spoke") else str(ending.get("waiting") or "")
    if stopped == "deadline":
        if waited:
            return "failed", waited, "in all its time the model never answered"
        return "done", "agent_budget", ""
    code, elapsed = record.get("rc"), record.get("elapsed_s")
    if code in NOT_STARTED and not ending and isinstance(elapsed, int | float) and elapsed < NOT_STARTED_S:
        return "failed", "cli_missing", exit_words(record)
    if code != 0 and (refused := str(ending.get("cause") or waited)):
        return "failed", refused, provider_words(ending) or exit_words(record)
    return "done", "" if record.get("rc") == 0 else "agent_exit", exit_words(record)


def agent_end(
    record: Mapping[str, Any] | None, cancelled: str, facts: Mapping[str, Any]
) -> tuple[str, str, str, dict[str, Any]]:
    """The outcome of an agent step and its facts: those of the harvest, whose `trace` says how the last session ended,
    with `flags` and `resets` (seconds since 1970), when a limit that was hit ends."""
    trace, noted = facts.get("trace"), facts.get("flags")
    ending = trace.get("ending") if isinstance(trace, Mapping) else None
    ending = ending if isinstance(ending, Mapping) else {}
    outcome, cause, why = agent_outcome(record, cancelled, ending)
    if outcome == "done" and record and record.get("rc") == STATUS and facts.get("gpu_check") == "failed":
        outcome, cause, why = "failed", "gpu", str(facts.get("gpu_why") or "the GPUs could not be used")
    found = dict(facts)
    if isinstance(ending.get("resetsAt"), int):
        found["resets"] = ending["resetsAt"]
    if flags := [*(noted if isinstance(noted, list) else ()), *agent_flags(ending, outcome)]:
        found["flags"] = flags
    return outcome, cause, why, found


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
