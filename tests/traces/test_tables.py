"""The field tables of H §3.2 to §3.6: each row is understood, and no text of it is lost in `solve_parsed.txt`."""

# ruff: noqa: E501 - a row of the tables stays a row

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ptb_tui.core.trace import TraceKind
from ptb_tui.traces.render import render
from tests.traces.samples import parse

K = TraceKind
CODEX_ITEM = {"id": "item_1"}
MCP = {"server": "srv", "tool": "find", "arguments": {"q": "what-q"}, "result": {"content": "what-r"}}
DELTA = {"candidates": [{"content": {"parts": [{"text": "seen-text"}]}}]}

ROWS: list[tuple[str, dict[str, Any], tuple[TraceKind, ...], tuple[str, ...]]] = [
    # Claude (§3.2)
    ("claude", {"type": "system", "subtype": "init", "session_id": "s-1", "model": "m-x", "tools": ["Bash", {"name": "Read"}],
                "cwd": "/home/ben/task"}, (K.INIT,), ("s-1", "m-x", "Bash, Read", "/home/ben/task")),
    ("claude", {"type": "system", "subtype": "init", "settings": {"model": "m-y"}, "allowed_tools": ["Web"],
                "working_directory": "/w"}, (K.INIT,), ("m-y", "Web", "/w")),
    ("claude", {"type": "system", "subtype": "compact", "note": "why-not"}, (K.SYSTEM,), ("compact", "why-not")),
    ("claude", {"type": "assistant", "message": {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hmm", "signature": "zz"}, {"type": "text", "text": "hello\nworld"},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls -la", "description": "look"}}]}},
     (K.THINKING, K.TEXT, K.TOOL_CALL), ("hmm", "hello", "world", "Bash", "t1", "$ ls -la", "look")),
    ("claude", {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t2", "name": "Run",
                "input": {"code": "1+1"}}]}}, (K.TOOL_CALL,), ("python 1+1",)),
    ("claude", {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t3", "name": "Write", "input":
                {"file_path": "x.py", "content": "p\nq"}}]}}, (K.TOOL_CALL,), ("x.py", "p", "q")),
    ("claude", {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a\nb"}]}},
     (K.TOOL_RESULT,), ("a", "b", "t1")),
    ("claude", {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": [
        {"type": "text", "text": "one"}, {"type": "json", "json": {"k": "two"}}, "three", {"other": "four"}]}]}},
     (K.TOOL_RESULT,), ("one", "two", "three", "four")),
    ("claude", {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "output": "old"}]}},
     (K.TOOL_RESULT,), ("old",)),
    ("claude", {"type": "result", "subtype": "success", "total_cost_usd": 1.5, "num_turns": 2, "duration_ms": 77,
                "usage": {"input_tokens": 11}, "modelUsage": {"m-x": {"outputTokens": 13}}, "result": "done"},
     (K.RESULT,), ("success", "$1.5000", "num_turns: 2", "77", "11", "13", "done")),
    ("claude", {"type": "stream_event", "event": {"delta": "piece"}}, (K.SYSTEM,), ("stream_event", "piece")),
    # Codex, new (§3.3)
    ("codex", {"type": "thread.started", "thread_id": "th1"}, (K.INIT,), ("th1",)),
    ("codex", {"type": "turn.started", "extra": "more"}, (K.SYSTEM,), ("turn.started", "more")),
    ("codex", {"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}},
     (K.RESULT,), ("5 input, 2 output, 4 cache read",)),
    ("codex", {"type": "item.completed", "item": {**CODEX_ITEM, "type": "reasoning", "text": "think"}},
     (K.THINKING,), ("think",)),
    ("codex", {"type": "item.completed", "item": {**CODEX_ITEM, "type": "agent_message", "text": "say"}}, (K.TEXT,), ("say",)),
    ("codex", {"type": "item.completed", "item": {**CODEX_ITEM, "type": "command_execution", "command": "bash -lc ls",
               "status": "completed", "exit_code": 3, "aggregated_output": "a\nb"}},
     (K.TOOL_CALL, K.TOOL_RESULT), ("$ bash -lc ls", "exit code 3", "a", "b", "item_1")),
    ("codex", {"type": "item.completed", "item": {**CODEX_ITEM, "type": "file_change", "status": "completed", "changes":
               [{"path": "x.py", "kind": "add"}]}}, (K.TOOL_CALL, K.TOOL_RESULT), ("add x.py",)),
    ("codex", {"type": "item.completed", "item": {**CODEX_ITEM, "type": "web_search", "query": "how to"}},
     (K.TOOL_CALL, K.TOOL_RESULT), ("how to",)),
    ("codex", {"type": "item.completed", "item": {**CODEX_ITEM, "type": "mcp_tool_call", **MCP}},
     (K.TOOL_CALL, K.TOOL_RESULT), ("srv.find", "what-q", "what-r")),
    ("codex", {"type": "item.updated", "item": {**CODEX_ITEM, "type": "todo_list", "items": [
        {"text": "do", "completed": True}, {"text": "next", "completed": False}]}}, (K.SYSTEM,), ("[x] do", "[ ] next")),
    ("codex", {"type": "item.completed", "item": {**CODEX_ITEM, "type": "error", "message": "odd"}}, (K.SYSTEM,), ("odd",)),
    ("codex", {"type": "turn.failed", "error": {"message": "went wrong"}}, (K.RESULT,), ("went wrong",)),
    ("codex", {"type": "error", "message": "broke", "code": "E1"}, (K.ERROR,), ("broke",)),
    # Codex, old
    ("codex", {"id": "0", "msg": {"type": "session_configured", "session_id": "s-2", "model": "m-z", "cwd": "/c"}},
     (K.INIT,), ("m-z", "s-2", "/c")),
    ("codex", {"id": "1", "msg": {"type": "task_started", "model_context_window": 4242}}, (K.SYSTEM,), ("4242",)),
    ("codex", {"id": "1", "msg": {"type": "task_complete", "last_agent_message": "bye"}}, (K.RESULT,), ("bye",)),
    ("codex", {"id": "1", "msg": {"type": "agent_message", "message": "hi"}}, (K.TEXT,), ("hi",)),
    ("codex", {"id": "1", "msg": {"type": "user_message", "message": "please"}}, (K.USER,), ("please",)),
    ("codex", {"id": "1", "msg": {"type": "exec_command_begin", "call_id": "c", "command": ["ls", "-l"], "cwd": "/x"}},
     (K.TOOL_CALL,), ("$ ls -l",)),
    ("codex", {"id": "1", "msg": {"type": "exec_command_output_delta", "call_id": "c", "chunk": "part"}}, (K.SYSTEM,), ("part",)),
    ("codex", {"id": "1", "msg": {"type": "exec_command_end", "call_id": "c", "exit_code": 1, "stdout": "o", "stderr": "e"}},
     (K.TOOL_RESULT,), ("exit code 1", "o", "e")),
    ("codex", {"id": "1", "msg": {"type": "agent_reasoning", "text": "why"}}, (K.THINKING,), ("why",)),
    ("codex", {"id": "1", "msg": {"type": "token_count", "input_tokens": 7, "output_tokens": 3, "total_tokens": 10}},
     (K.SYSTEM,), ("7 input, 3 output",)),
    ("codex", {"id": "1", "msg": {"type": "warning", "message": "careful"}}, (K.SYSTEM,), ("careful",)),
    ("codex", {"id": "1", "msg": {"type": "mcp_tool_call_begin", "call_id": "c", "server_name": "srv", "tool_name": "t",
               "arguments": {"a": "arg"}}}, (K.TOOL_CALL,), ("srv.t", "arg")),
    ("codex", {"id": "1", "msg": {"type": "patch_apply_begin", "call_id": "c", "patch": "*** patch"}}, (K.TOOL_CALL,), ("*** patch",)),
    ("codex", {"id": "1", "msg": {"type": "patch_apply_end", "call_id": "c", "success": False, "error": "no"}},
     (K.TOOL_RESULT,), ("no",)),
    ("codex", {"id": "1", "msg": {"type": "turn_aborted", "reason": "interrupted"}}, (K.RESULT,), ("interrupted",)),
    ("codex", {"id": "1", "msg": {"type": "agent_message_delta", "delta": "bit"}}, (K.TEXT,), ("bit",)),
    # Gemini (§3.4)
    ("gemini", {"type": "init", "session_id": "g-1", "model": "m-g"}, (K.INIT,), ("g-1", "m-g")),
    ("gemini", {"type": "message", "role": "assistant", "content": "ab", "delta": True}, (K.TEXT,), ("ab",)),
    ("gemini", {"type": "tool_use", "tool_name": "sh", "tool_id": "t", "parameters": {"command": ["a", "b c"]}},
     (K.TOOL_CALL,), ("$ a 'b c'",)),
    ("gemini", {"type": "tool_result", "tool_id": "t", "status": "error", "output": "out", "error": {"message": "bad"}},
     (K.TOOL_RESULT,), ("out", "bad")),
    ("gemini", {"type": "error", "severity": "error", "message": "broke"}, (K.ERROR,), ("broke",)),
    ("gemini", {"type": "result", "status": "success", "stats": {"total_tokens": 12, "input_tokens": 8, "output_tokens": 4,
                "tool_calls": 2, "duration_ms": 99}}, (K.RESULT,), ("8 input, 4 output", "99")),
    ("gemini", {"method": "generateContent", "response": DELTA}, (K.TEXT,), ("seen-text",)),
    ("gemini", {"type": "brand_new", "x": "kept"}, (K.SYSTEM,), ("kept",)),
    # OpenCode (§3.5)
    ("opencode", {"type": "step_start", "sessionID": "o-1", "part": {"messageID": "m"}}, (K.INIT,), ("o-1",)),
    ("opencode", {"type": "text", "part": {"text": "say"}}, (K.TEXT,), ("say",)),
    ("opencode", {"type": "tool_use", "part": {"tool": "bash", "callID": "c", "state": {"status": "completed", "title": "List",
                  "input": {"command": "ls"}, "output": "a" * 3000 + "end"}}},
     (K.TOOL_CALL, K.TOOL_RESULT), ("$ ls", "a" * 3000 + "end")),
    ("opencode", {"type": "tool_use", "part": {"tool": "read", "callID": "c", "state": {"status": "error", "input":
                  {"file_path": "x"}, "error": "gone"}}}, (K.TOOL_CALL, K.TOOL_RESULT), ("file_path: x", "gone")),
    ("opencode", {"type": "step_finish", "part": {"reason": "tool-calls", "cost": 0.01, "tokens": {"input": 1, "output": 2,
                  "reasoning": 3, "cache": {"read": 4, "write": 5}}}},
     (K.SYSTEM,), ("tool-calls", "1 input, 2 output, 4 cache read, 5 cache write", "$0.0100")),
    ("opencode", {"type": "error", "error": {"name": "APIError", "data": {"message": "no"}}}, (K.ERROR,), ("no", "APIError")),
    # Cursor (§3.6)
    ("cursor", {"type": "system", "subtype": "init", "session_id": "c-1", "model": "m-c", "cwd": "/c", "permissionMode": "x",
                "apiKeySource": "env"}, (K.INIT,), ("c-1", "m-c", "/c", "env")),
    ("cursor", {"type": "system", "subtype": "task_notification", "status": "done", "title": "Task", "task_id": "k"},
     (K.SYSTEM,), ("task_notification", "Task", "done")),
    ("cursor", {"type": "thinking", "subtype": "delta", "text": "a b"}, (K.THINKING,), ("a b",)),
    ("cursor", {"type": "tool_call", "subtype": "started", "call_id": "call-1\nfc-1", "tool_call":
                "{'shellToolCall': {'args': {'command': 'ls'}}}"}, (K.TOOL_CALL,), ("call-1", "$ ls")),
    ("cursor", {"type": "tool_call", "subtype": "completed", "call_id": "call-2", "tool_call": {"readToolCall": {
                "args": {"path": "x.txt"}, "result": {"success": {"content": "inside"}}}}},
     (K.TOOL_CALL, K.TOOL_RESULT), ("x.txt", "inside")),
    ("cursor", {"type": "retry", "subtype": "starting", "attempt": 1}, (K.RETRY,), ("retry starting",)),
    ("cursor", {"type": "connection", "subtype": "lost"}, (K.SYSTEM,), ("connection lost",)),
    ("cursor", {"type": "interaction_query", "subtype": "request", "query_type": "web"}, (K.SYSTEM,), ("request web",)),
    ("cursor", {"type": "result", "subtype": "success", "duration_ms": 5, "result": "ok", "usage": "{'inputTokens': 6}"},
     (K.RESULT,), ("success", "ok", "6 input")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "item", "kinds", "texts"), ROWS, ids=[f"{n}-{row[0]}" for n, row in enumerate(ROWS)]
)
def test_a_row_of_the_tables(
    family: str, item: dict[str, Any], kinds: tuple[TraceKind, ...], texts: tuple[str, ...]
) -> None:
    events = parse(json.dumps(item).encode() + b"\n", family)
    assert tuple(event.kind for event in events) == kinds
    text = "".join(map(render, events))
    for expected in texts:
        assert expected in text


def leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("family", ["claude", "codex", "gemini", "opencode", "cursor", "grok"])
def test_an_object_of_an_unknown_type_is_shown_whole(family: str) -> None:
    item = {"type": "hologram", "a": {"b": ["first", {"c": "second\nthird"}]}, "n": 17, "t": True}
    text = "".join(map(render, parse(json.dumps(item).encode(), family)))
    for leaf in [part for text in leaves(item) for part in text.split("\n")]:
        assert leaf in text
    assert "17" in text and "true" in text
