"""Requests of the four dialects read, and what a scripted model says in each of them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

INPUT, CACHED, OUTPUT = 1200, 1000, 40  # tokens of every answer; the cached ones are part of the input
THOUGHT, BEFORE, AFTER = "I will run one command.", "I will run one shell command now.", "Done: final_model is there."


@dataclass(frozen=True, slots=True)
class Request:
    """What a dialect makes of a request: whether a tool has answered, and the tools on offer."""

    answered: bool
    tools: tuple[str, ...]
    model: str
    stream: bool
    json_only: bool = False  # a side question that wants JSON


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent. `events` are those of a stream: (name, data)."""

    status: int = 200
    body: Mapping[str, Any] | None = None
    events: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


def _items(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read(dialect: str, body: Mapping[str, Any], stream: bool) -> Request:
    """What a request asks."""
    model = str(body.get("model") or "script")
    tools, json_only = _items(body.get("tools")), False
    if dialect == "responses":
        answered = any(str(item.get("type", "")).endswith("_output") for item in _items(body.get("input")))
        names = [str(tool.get("name") or tool.get("type")) for tool in tools]
    elif dialect == "chat":
        answered = any(message.get("role") == "tool" for message in _items(body.get("messages")))
        names = [str((tool.get("function") or {}).get("name")) for tool in tools]
    elif dialect == "messages":
        parts = [part for message in _items(body.get("messages")) for part in _items(message.get("content"))]
        answered = any(part.get("type") == "tool_result" for part in parts)
        names = [str(tool.get("name")) for tool in tools]
    else:
        parts = [part for content in _items(body.get("contents")) for part in _items(content.get("parts"))]
        answered = any("functionResponse" in part for part in parts)
        names = [str(one.get("name")) for tool in tools for one in _items(tool.get("functionDeclarations"))]
        wanted = body.get("generationConfig") or {}
        json_only = wanted.get("responseMimeType") == "application/json" or "responseJsonSchema" in wanted
    return Request(answered, tuple(names), model, stream, json_only)


def arguments(tool: str, command: str) -> dict[str, Any]:
    """The input of a shell tool."""
    if tool == "shell":
        return {"command": ["bash", "-lc", command]}
    if tool == "exec_command":
        return {"cmd": command}
    return {"command": command, "description": "One step of the script"}


def write(dialect: str, asked: Request, tool: str, command: str) -> Reply:
    """A call of `tool` with `command`, or the last words when `tool` is empty."""
    made = {"responses": _responses, "chat": _chat, "messages": _messages, "gemini": _gemini}[dialect]
    return made(asked, tool, arguments(tool, command))


def _stream(*events: tuple[str, Mapping[str, Any]]) -> Reply:
    return Reply(events=tuple((name, json.dumps(data)) for name, data in events))


def _name(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex[:24]}"


def _responses(asked: Request, tool: str, given: Mapping[str, Any]) -> Reply:
    def message(text: str) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": []}
        return {"id": _name("msg"), "type": "message", "role": "assistant", "status": "completed", "content": [part]}

    output = [message(AFTER)]
    if tool:
        thought = {"type": "summary_text", "text": f"**Plan**\n\n{THOUGHT}"}
        output = [
            {"id": _name("rs"), "type": "reasoning", "summary": [thought], "content": None, "encrypted_content": None},
            message(BEFORE),
            {"id": _name("fc"), "type": "function_call", "name": tool, "call_id": _name("call"),
             "arguments": json.dumps(given), "status": "completed"},
        ]  # fmt: skip
    base = {"id": _name("resp"), "object": "response", "created_at": int(time.time()), "model": asked.model}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**base, "status": "in_progress"}}]
    for number, item in enumerate(output):
        events.append({"type": "response.output_item.added", "output_index": number, "item": item})
        events.append({"type": "response.output_item.done", "output_index": number, "item": item})
    usage = {
        "input_tokens": INPUT,
        "input_tokens_details": {"cached_tokens": CACHED},
        "output_tokens": OUTPUT,
        "output_tokens_details": {"reasoning_tokens": 10},
        "total_tokens": INPUT + OUTPUT,
    }
    done = {**base, "status": "completed", "output": output, "usage": usage}
    events.append({"type": "response.completed", "response": done})
    return _stream(*((event["type"], {**event, "sequence_number": n}) for n, event in enumerate(events)))


def _chat(asked: Request, tool: str, given: Mapping[str, Any]) -> Reply:
    usage = {
        "prompt_tokens": INPUT,
        "completion_tokens": OUTPUT,
        "total_tokens": INPUT + OUTPUT,
        "prompt_tokens_details": {"cached_tokens": CACHED},
    }
    call = {"id": _name("call"), "type": "function", "function": {"name": tool, "arguments": json.dumps(given)}}
    text, reason = (BEFORE, "tool_calls") if tool else (AFTER, "stop")
    base = {"id": _name("chatcmpl"), "created": int(time.time()), "model": asked.model}
    if not asked.stream:
        said = {"role": "assistant", "content": text, **({"tool_calls": [call]} if tool else {})}
        choice = {"index": 0, "message": said, "finish_reason": reason}
        return Reply(body={**base, "object": "chat.completion", "choices": [choice], "usage": usage})

    def chunk(delta: Mapping[str, Any], ended: str | None = None) -> tuple[str, Mapping[str, Any]]:
        choice = {"index": 0, "delta": delta, "finish_reason": ended}
        return "", {**base, "object": "chat.completion.chunk", "choices": [choice]}

    chunks = [chunk({"role": "assistant", "content": text})]
    chunks += [chunk({"tool_calls": [{"index": 0, **call}]})] if tool else []
    chunks += [chunk({}, reason), ("", {**base, "object": "chat.completion.chunk", "choices": [], "usage": usage})]
    return Reply(events=(*_stream(*chunks).events, ("", "[DONE]")))


def _messages(asked: Request, tool: str, given: Mapping[str, Any]) -> Reply:
    content: list[dict[str, Any]] = [{"type": "text", "text": BEFORE if tool else AFTER}]
    content += [{"type": "tool_use", "id": _name("toolu"), "name": tool, "input": dict(given)}] if tool else []
    usage = {
        "input_tokens": INPUT - CACHED,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": CACHED,
        "output_tokens": OUTPUT,
    }
    reason = "tool_use" if tool else "end_turn"
    base = {"id": _name("msg"), "type": "message", "role": "assistant", "model": asked.model, "stop_sequence": None}
    if not asked.stream:
        return Reply(body={**base, "content": content, "stop_reason": reason, "usage": usage})
    first: dict[str, Any] = {**base, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": first}]
    for number, block in enumerate(content):
        begun = {**block, "input": {}} if block["type"] == "tool_use" else {**block, "text": ""}
        delta = {"type": "text_delta", "text": block.get("text")}
        if block["type"] == "tool_use":
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": number, "content_block": begun})
        events.append({"type": "content_block_delta", "index": number, "delta": delta})
        events.append({"type": "content_block_stop", "index": number})
    ended = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": OUTPUT}})
    events.append({"type": "message_stop"})
    return _stream(*((event["type"], event) for event in events))


def _gemini(asked: Request, tool: str, given: Mapping[str, Any]) -> Reply:
    parts: list[dict[str, Any]] = [{"text": AFTER}]
    if asked.json_only:
        judged = {"reasoning": "scripted", "next_speaker": "user", "model_choice": "pro", "complexity_score": 50}
        parts = [{"text": json.dumps({**judged, "complexity_reasoning": "scripted"})}]
    elif tool:
        parts = [{"text": BEFORE}, {"functionCall": {"name": tool, "args": dict(given)}}]
    usage = {
        "promptTokenCount": INPUT,
        "cachedContentTokenCount": CACHED,
        "candidatesTokenCount": OUTPUT,
        "totalTokenCount": INPUT + OUTPUT,
    }
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    said = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "script", "responseId": _name("r")}
    return _stream(("", said)) if asked.stream else Reply(body=said)
