"""A model that follows a script, spoken in the dialects of the four CLIs; standard library alone, for 127.0.0.1.

    POST /<scenario>/v1/responses                         OpenAI Responses: codex
    POST /<scenario>/v1/chat/completions                  OpenAI chat completions: opencode
    POST /<scenario>/v1/messages                          Anthropic Messages: claude
    POST /<scenario>/v1beta/models/<m>:…generateContent   Gemini

What is answered depends on the request alone: without the result of a tool in it the model asks for one shell command,
otherwise it says that it is done. Bodies and headers of refusals are written after the vendors' documentation.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.realcli import answers, refusals
from tests.realcli.answers import Reply

LEAVE_MODEL = "cp -r /opt/ptb/base_model final_model && ls final_model"
COMMANDS = {"toolfail": f"{LEAVE_MODEL}; echo to no avail; exit 3", "slow": "echo begun; sleep 600"}
HOLD_S = 300.0  # how long an answer that never comes is held back


def tool_of(names: tuple[str, ...]) -> str:
    """The tool that runs a shell command; "" when there is none."""
    known = ("exec_command", "shell_command", "shell", "Bash", "run_shell_command", "bash")
    return next((name for name in known if name in names), "")


def reply(dialect: str, scenario: str, body: Mapping[str, Any], stream: bool) -> Reply | None:
    """The answer to a request; None when it never comes."""
    asked = answers.read(dialect, body, stream)
    late = scenario.startswith("mid_")
    kind = scenario.removeprefix("mid_")
    if kind in refusals.KINDS and (asked.answered or not late):
        status, headers, refused = refusals.refusal(dialect, kind)
        return Reply(status, refused, headers=headers)
    if scenario == "slow" and asked.answered:
        return None
    tool = "" if asked.answered else tool_of(asked.tools)
    return answers.write(dialect, asked, tool, COMMANDS.get(scenario, LEAVE_MODEL))


def route(path: str) -> tuple[str, str, bool] | None:
    """Scenario, dialect and whether a stream is wanted by the path alone; None for a path that is not served."""
    scenario, _, rest = path.partition("?")[0].strip("/").partition("/")
    for end, dialect in (("/responses", "responses"), ("/chat/completions", "chat"), ("/messages", "messages")):
        if rest.endswith(end):
            return scenario, dialect, False
    if rest.endswith("enerateContent"):
        return scenario, "gemini", rest.endswith(":streamGenerateContent")
    return None


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Endpoint

    def log_message(self, *_: Any) -> None:
        """Nothing on stderr."""

    def _body(self) -> dict[str, Any]:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            data = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        try:
            found = json.loads(data or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _send(self, answer: Reply) -> None:
        if answer.events:
            text = "".join((f"event: {name}\n" if name else "") + f"data: {data}\n\n" for name, data in answer.events)
            data, kind = text.encode(), "text/event-stream"
        else:
            data, kind = json.dumps(answer.body).encode(), "application/json"
        self.send_response(answer.status)
        for name, value in (("content-type", kind), ("content-length", str(len(data))), *answer.headers.items()):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_HEAD(self) -> None:
        """A CLI looks whether anybody is there."""
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """The list of models; nothing else is there."""
        self.server.note("GET", self.path, {})
        if self.path.partition("?")[0].endswith("/models"):
            self._send(Reply(body={"object": "list", "data": [{"id": "gpt-script", "object": "model"}], "models": []}))
        else:
            self._send(Reply(404, {"error": {"message": "not found"}}))

    def do_POST(self) -> None:
        """The script."""
        body = self._body()
        self.server.note("POST", self.path, dict(self.headers.items()))
        found = route(self.path)
        if found is None:
            count = self.path.partition("?")[0].endswith(("/count_tokens", ":countTokens"))
            tokens = {"input_tokens": 100, "totalTokens": 100}
            self._send(Reply(body=tokens) if count else Reply(404, {"error": {"message": f"no {self.path}"}}))
            return
        scenario, dialect, stream = found
        answer = reply(dialect, scenario, body, stream or body.get("stream") is True)
        if answer is None:
            self.server.closing.wait(HOLD_S)
            self.close_connection = True
            return
        try:
            self._send(answer)
        except OSError:  # the CLI went away
            self.close_connection = True


class Endpoint(ThreadingHTTPServer):
    """The server; `log` gets a JSON line for each request, without its body."""

    daemon_threads = True

    def __init__(self, port: int, log: Path | None = None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.log, self.lock, self.closing = log, threading.Lock(), threading.Event()

    def note(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Write a request down."""
        if self.log is not None:
            line = {"t": time.time(), "id": uuid.uuid4().hex, "method": method, "path": path, "headers": dict(headers)}
            with self.lock, open(self.log, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
