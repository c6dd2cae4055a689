"""What an agent did, read from its trace: commands it ran, files it wrote, pages it opened, how the session ended.

Works on the stamped trace of any supported CLI without knowing which one wrote it: a tool call is recognised by its
shape. Text that the agent merely said is no action. Lines that are no JSON are ignored, so a plain-text trace yields
nothing and the rules that need actions say so.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_LINE = 1 << 20
MAX_TRACE = 512 << 20
MAX_ACTIONS = 50_000
MAX_KEPT = 64 << 20  # characters of commands and files kept in memory
_STAMP = re.compile(rb"^\[[0-9T:.Z+-]{10,40}\] ")
_SHELL = re.compile(r"bash|shell|exec|command|terminal", re.I)
_SHELL_RUNS = re.compile(r"(?:/[\w./-]{1,60}/)?(?:ba|da|z)?sh[ ]{1,3}-l?c[ ]{1,3}(?=[\"'])")
_ESCAPED = re.compile(r"\\([\"\\$`])")
_WRITE = re.compile(r"write|edit|create|replace|patch", re.I)
_FETCH = re.compile(r"web|fetch|google|browse", re.I)
_LIMIT = re.compile(
    r"(usage|session|rate|weekly|monthly|daily|quota|credit)[ _-]?(limit|exceeded|quota|balance)|limit reached|quota"
    r"|insufficient[ _](credit|balance|quota)|payment required|credit balance|billing|\b(402|429)\b",
    re.I,
)
_LOGIN = re.compile(
    r"authenticat|unauthori[sz]ed|invalid (api|x-api)[- ]key|refresh token|access token|log ?in|sign in|\b40[13]\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the agent did. `kind`: command | write | fetch; `line` counts from 1; `name` is the file written."""

    kind: str
    line: int
    text: str
    name: str = ""
    background: bool = False


@dataclass(slots=True)
class Session:
    """All actions of a trace, and the structured end of the session if it failed."""

    actions: list[Action] = field(default_factory=list)
    lines: int = 0
    json_lines: int = 0
    cut: bool = False
    ended: bool = False  # a closing event was seen
    failure: str = ""  # limit | login | error, of the last closing event
    failure_text: str = ""
    failure_line: int = 0


def read_session(path: Path) -> Session | None:
    """The session in a trace file; None when there is no such regular file. Total on any content, bounded."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    session, seen, kept = Session(), set[tuple[str, str, str]](), 0
    with os.fdopen(fd, "rb") as file:
        read, fresh = 0, True
        while raw := file.readline(MAX_LINE):
            read += len(raw)
            session.lines += fresh
            whole, fresh = fresh and raw.endswith(b"\n"), raw.endswith(b"\n")
            if read > MAX_TRACE or len(session.actions) >= MAX_ACTIONS or kept > MAX_KEPT:
                session.cut = True
                break
            event = _event(raw) if whole or len(raw) < MAX_LINE else None
            if event is None:
                session.cut = session.cut or len(raw) >= MAX_LINE
                continue
            session.json_lines += 1
            _note_end(session, event)
            for action in _actions(event, session.lines):
                key = (action.kind, action.text, action.name)
                if key not in seen:  # CLIs report a command when it starts and when it ends
                    seen.add(key)
                    session.actions.append(action)
                    kept += len(action.text)
    return session


def _event(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(_STAMP.sub(b"", raw, count=1))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _nodes(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The event and the objects in the few places where CLIs put a tool call."""
    yield event
    for key in ("item", "part", "msg", "message"):
        inner = event.get(key)
        if isinstance(inner, dict):
            yield inner
            content = inner.get("content")
            if isinstance(content, list):
                yield from (entry for entry in content if isinstance(entry, dict))


def _actions(event: dict[str, Any], line: int) -> Iterator[Action]:
    for node in _nodes(event):
        kind = str(node.get("type", ""))
        if kind in ("command_execution", "exec_command_begin"):
            yield Action("command", line, _inner(_text(node.get("command"))))
        elif kind == "web_search":
            yield Action("fetch", line, _text(node.get("query")))
        elif kind in ("tool_use", "tool", "mcp_tool_call", "function_call", "tool_call"):
            given = node.get("input", node.get("parameters", node.get("arguments")))
            state = node.get("state")
            if isinstance(state, dict) and isinstance(state.get("input"), dict):
                given = state["input"]
            name = str(node.get("name") or node.get("tool_name") or node.get("tool") or "")
            if name or isinstance(given, dict):
                yield _tool(name, given if isinstance(given, dict) else {"arguments": given}, line)


def _tool(name: str, given: dict[str, Any], line: int) -> Action:
    command = given.get("command", given.get("cmd"))
    if command is not None and (_SHELL.search(name) or not name):
        return Action("command", line, _inner(_text(command)), background=given.get("run_in_background") is True)
    target = next((given[key] for key in ("file_path", "filePath", "path", "filename") if key in given), "")
    if _WRITE.search(name) and target:
        body = "\n".join(_text(value) for key, value in given.items() if key not in ("old_string", "oldString"))
        return Action("write", line, body, os.path.basename(_text(target)))
    if _FETCH.search(name):
        return Action("fetch", line, _text(given))
    return Action("other", line, _text(given))


def _inner(command: str) -> str:
    """What a shell is given to run, where a CLI writes the shell down too: `bash -lc '…'` says `…`."""
    start = _SHELL_RUNS.match(command)
    rest = command[start.end() :].rstrip() if start else ""
    if len(rest) < 2 or rest[0] != rest[-1]:
        return command
    text = rest[1:-1]
    if rest[0] == "'":
        return text.replace("'\"'\"'", "'").replace("'\\''", "'")
    return _ESCAPED.sub(r"\1", text)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return " ".join(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""


def _note_end(session: Session, event: dict[str, Any]) -> None:
    """Keep the newest closing event; only structured ones count, never words in the agent's text."""
    kind = event.get("type")
    if kind not in ("result", "turn.completed", "turn.failed", "error", "step_finish"):
        return
    error = event.get("error")
    failed = kind in ("turn.failed", "error") or event.get("is_error") is True or event.get("status") == "error"
    session.ended = session.ended or kind in ("result", "turn.completed", "turn.failed")
    if not failed:
        session.failure = session.failure_text = ""
        return
    if str(event.get("severity", "error")) == "warning":
        return
    text = _text(error if error is not None else event.get("result", event.get("message", "")))[:2000]
    session.failure = "limit" if _LIMIT.search(text) else "login" if _LOGIN.search(text) else "error"
    session.failure_text, session.failure_line = text, session.lines
