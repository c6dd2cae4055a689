"""Commands and their outcomes, however a CLI writes them down."""

from __future__ import annotations

import shlex
from typing import Any

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind
from ptb_tui.traces.blocks import call_text, pretty
from ptb_tui.traces.jsonlines import EventMaker


def joined(command: object) -> object:
    """A list of words as one shell command; anything else as it is."""
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return command


def command_text(command: object) -> str:
    """`$ command` for text or a list of words."""
    line = joined(command)
    return f"$ {line}" if isinstance(line, str) else pretty(line)


def input_text(value: object) -> str:
    """The input of a tool call; a command may be a list of words."""
    if isinstance(value, dict) and isinstance(value.get("command"), list):
        value = {**value, "command": joined(value["command"])}
    return call_text(value)


def exit_code(value: object) -> int | None:
    """An exit code; None unless it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 32 else None


def result_event(make: EventMaker, tool: str, tool_id: str, text: str, code: object = None, *,
                 failed: bool = False) -> TraceEvent:  # fmt: skip
    """The result of a call. A failure is a warning, and its exit code stands above what was printed."""
    known = exit_code(code)
    failed = failed or bool(known)
    data: dict[str, Any] = {"exit_code": known} if known is not None else {}
    if failed:
        data["failed"] = True
    if known:
        text = f"exit code {known}\n{text}" if text else f"exit code {known}"
    severity = Severity.WARNING if failed else Severity.INFO
    return make.text(TraceKind.TOOL_RESULT, text, severity, data=data, tool=tool, tool_id=tool_id)
