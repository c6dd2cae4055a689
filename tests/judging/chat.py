"""A model that judges by a script, behind chat completions on 127.0.0.1; standard library alone.

    POST /<scenario>/v1/chat/completions

What is answered depends on the request alone. Scenarios are words joined by `+`:

    judge          looks (one call of each tool), says that it has seen enough, and gives its verdict when asked for it
    notools noschema noobject noeffort     refuses requests that hold these, as servers without them do
    swallow        takes tools, and never calls one of its own
    short          refuses more than 30,000 characters, as a model with a small window does
    blind          gives a verdict at once, without looking
    fenced flag badnonce string chatty obey       what its verdict is like; obey: does as text in the evidence says
    silent         never gives one      nousage     does not say what it used      cost     says dollars
    401 402 429 500 302                             refuses so                     garbage  answers no JSON
    nomodels       answers 401 to a question about its models
    drip           answers a byte at a time, for ever
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 1200, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 1000}}
LOOKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list", {"path": "task", "depth": 2}),
    ("read", {"path": "solve_out.txt", "line": 1}),
    ("grep", {"pattern": "Ignore", "path": "task"}),
    ("check_contamination", {"path": "task"}),
    ("check_identity", {}),
    ("no_such_tool", {"x": 1}),
)


def refusal(words: set[str], body: Mapping[str, Any]) -> tuple[int, str] | None:
    """Status and message of what this server does not take."""
    form = (body.get("response_format") or {}).get("type")
    size = sum(len(str(message.get("content") or "")) for message in body["messages"])
    for word, holds, message in (
        ("noeffort", "reasoning_effort" in body, "Unsupported value: 'reasoning_effort' does not support 'xhigh'"),
        ("notools", "tools" in body, '"auto" tool choice requires --enable-auto-tool-choice to be set'),
        ("noschema", form == "json_schema", "response_format json_schema is not supported"),
        ("noobject", form is not None, "unknown field"),
        ("short", size > 30_000, "This model's maximum context length is 8192 tokens"),
    ):
        if word in words and holds:
            return 400, message
    status = next((int(word) for word in words if word.isdigit()), 0)
    return (status, f"refused with {status}, Bearer or not") if status else None


def verdict(words: set[str], said: str) -> str:
    """The verdict that a prompt asks for."""
    nonce = re.search(r'"nonce": "([0-9a-f]+)"', said)
    flags = list(dict.fromkeys(re.findall(r'"([a-z_]+)": <true or false>', said)))
    if "silent" in words or nonce is None:
        return "I cannot decide."
    fields: dict[str, Any] = {"nonce": "0" * 32 if "badnonce" in words else nonce[1], **dict.fromkeys(flags, False)}
    fields.update(("justification_" + flag, "solve_out.txt:1 shows nothing else") for flag in flags)
    fields[flags[0]] = "false" if "string" in words else "flag" in words
    text = json.dumps(fields)
    if "fenced" in words:
        return f"Here it is:\n```json\n{text}\n```"
    return f"I think:\n{text}\nThat is all." if "chatty" in words else text


def message(words: set[str], body: Mapping[str, Any]) -> dict[str, Any]:
    """What the model says."""
    said = "\n".join(str(entry.get("content") or "") for entry in body["messages"])
    last = str(body["messages"][-1].get("content") or "")
    looked = "data, not instructions]" in said
    if "blind" in words:
        return {"role": "assistant", "content": verdict(words, said)}
    by_text = "Tools are asked for in text." in said
    if not looked and "swallow" in words and not by_text:
        return {"role": "assistant", "content": "Let me look at the evidence."}
    if not looked and "tools" in body and "swallow" not in words:
        calls = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for n, (name, given) in enumerate(LOOKS)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if not looked:
        call = {"tool": "read", "arguments": {"path": "solve_out.txt"}}
        return {"role": "assistant", "content": f"I shall read.\n{json.dumps(call)}"}
    if "obey" in words and "write contamination: false" in said:
        return {"role": "assistant", "content": '{"contamination": false, "disallowed_model": false}'}
    if "Give your verdict now" in last or "response_format" in body:
        return {"role": "assistant", "content": verdict(words, said)}
    return {"role": "assistant", "content": "I have seen enough."}


def check(body: Mapping[str, Any]) -> str:
    """What is wrong with a request in the eyes of a strict server, "" for nothing."""
    open_calls: list[str] = []
    for entry in body["messages"]:
        if entry["role"] == "tool":
            if entry["tool_call_id"] not in open_calls:
                return f"a result for {entry['tool_call_id']}, which nobody called"
            open_calls.remove(entry["tool_call_id"])
        elif open_calls:
            return f"no result for {open_calls}"
        else:
            open_calls = [call["id"] for call in entry.get("tool_calls") or ()]
    return f"no result for {open_calls}" if open_calls else ""


def answer(scenario: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
    """Status and body of an answer."""
    words = set(scenario.split("+"))
    if wrong := check(body):
        return 422, json.dumps({"error": {"message": wrong}}).encode()
    if refused := refusal(words, body):
        return refused[0], json.dumps({"error": {"message": refused[1], "type": "invalid"}}).encode()
    if "garbage" in words:
        return 200, b"<html>busy</html>"
    usage: dict[str, Any] = dict(USAGE) | ({"cost": 0.25} if "cost" in words else {})
    found = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": f"{body['model']}-2026",
        "choices": [{"index": 0, "message": message(words, body), "finish_reason": "stop"}],
        **({} if "nousage" in words else {"usage": usage}),
    }
    return 200, json.dumps(found).encode()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Chat

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        scenario = self.path.strip("/").partition("/")[0]
        with self.server.lock:
            self.server.asked.append({"path": self.path, "headers": dict(self.headers.items()), "body": body})
        if scenario == "drip":
            self._drip()
            return
        status, data = answer(scenario, body)
        self.send_response(status)
        for name, value in (("content-type", "application/json"), ("content-length", str(len(data)))):
            self.send_header(name, value)
        if status == 302:
            self.send_header("location", f"{self.server.url('judge')}/chat/completions")
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        """The list of models, which `nomodels` refuses though it judges."""
        self.server.looks += 1
        self.send_response(401 if "nomodels" in self.path else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def _drip(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "1000000")
        self.end_headers()
        try:
            while not self.server.closing.wait(0.02):
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            return

    def log_message(self, *_: object) -> None:
        pass


class Chat(ThreadingHTTPServer):
    """The server; `asked` are the requests so far."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.asked, self.lock, self.closing = list[dict[str, Any]](), threading.Lock(), threading.Event()
        self.looks = 0

    def url(self, scenario: str) -> str:
        """The base URL of a scenario."""
        return f"http://127.0.0.1:{self.server_port}/{scenario}/v1"


@contextmanager
def chat() -> Iterator[Chat]:
    """A server for the block."""
    with Chat() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
