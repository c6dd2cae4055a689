"""How the last session of a trace ended, in the CLI's own words about itself (docs/decisions/0009).

A fold over the events of a trace, or over the rows of its index. Only error fields of a CLI count, which the parsers
put into `data` (`traces.refusals`): `cause`, `trouble`, `error_status`, `resetsAt`. What an agent says, prints or reads
changes nothing but that the model has answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind
from ptb_tui.traces import index
from ptb_tui.traces.refusals import BACKGROUND, CREDENTIAL, LIMIT, NETWORK, SERVER

_ANSWERS = frozenset((TraceKind.TEXT, TraceKind.THINKING, TraceKind.TOOL_CALL, TraceKind.TOOL_RESULT))
_BY_TROUBLE = {SERVER: "provider_error", NETWORK: "provider_unreachable"}
CAUSES = frozenset((LIMIT, CREDENTIAL, *_BY_TROUBLE.values()))  # a model that declines is none of them
_KEPT = ("trouble", "error_status", "resetsAt", "resets", "resets_clock", "retry_in_seconds")


def cause_of(data: Mapping[str, Any]) -> str:
    """The cause that an event's facts speak for; "" when they name none of the provider's."""
    cause, trouble = data.get("cause"), data.get("trouble")
    if isinstance(cause, str) and cause in CAUSES:
        return cause
    if data.get("network") is False:
        return _BY_TROUBLE[NETWORK]
    return _BY_TROUBLE.get(trouble, "") if isinstance(trouble, str) else ""


class Fold:
    """Takes events one after the other. Constant memory."""

    def __init__(self) -> None:
        self._sessions = self._limits = 0
        self._spoke = self._background = self._limited = False
        self._failure: dict[str, Any] = {}
        self._waiting: dict[str, Any] = {}

    def add(self, event: TraceEvent) -> None:
        """Take the next event."""
        kind, data = event.kind, event.data
        if kind in _ANSWERS:
            self._spoke = True
            self._failure, self._waiting, self._limited, self._background = {}, {}, False, False
            return
        self._background = self._background or data.get("trouble") == BACKGROUND
        if kind is TraceKind.INIT:
            self._sessions += 1
            self._failure, self._waiting, self._limited = {}, {}, False
        elif kind is TraceKind.RETRY:
            self._waiting = _facts(data) or self._waiting
        elif kind in (TraceKind.LIMIT, TraceKind.ERROR) and event.severity is Severity.ERROR:
            self._limits += kind is TraceKind.LIMIT and not self._limited
            self._limited = self._limited or kind is TraceKind.LIMIT
            self._failure = {**self._failure, **_facts(data)}
        elif kind is TraceKind.RESULT:
            failed = event.severity is Severity.ERROR
            self._failure = {**self._failure, **_facts(data)} if failed else {}
            self._waiting = {}

    def result(self) -> dict[str, Any]:
        """What is known, empty fields left out: `sessions`; `spoke`: the model answered; `cause` with `trouble`,
        `error_status` and the times of `traces.refusals`: what ended the last session; `waiting`: the cause of attempts
        that nothing has answered; `limits`: how often a limit was hit; `background`: the last session ended although
        work was said to go on."""
        found: dict[str, Any] = {
            "sessions": self._sessions,
            "spoke": self._spoke,
            "limits": self._limits,
            "background": self._background,
            "waiting": self._waiting.get("cause", "") if not self._failure.get("cause") else "",
        }
        if self._failure.get("cause"):
            found |= self._failure
        elif found["waiting"]:
            found |= {key: value for key, value in self._waiting.items() if key != "cause"}
        return {key: value for key, value in found.items() if value}


def _facts(data: Mapping[str, Any]) -> dict[str, Any]:
    cause = cause_of(data)
    if not cause:
        return {}
    kept = {key: data[key] for key in _KEPT if isinstance(data.get(key), str | int | float)}
    return {"cause": cause, **{key: value[:80] if isinstance(value, str) else value for key, value in kept.items()}}


def of(events: Iterable[TraceEvent]) -> dict[str, Any]:
    """The ending of these events."""
    fold = Fold()
    for event in events:
        fold.add(event)
    return fold.result()


def of_index(path: Path) -> dict[str, Any]:
    """The ending of the trace with this index. OSError when it cannot be read."""
    return of(index.read(path))
