"""A grader for tests on 127.0.0.1: it answers what a function says, or fails as told."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = str | tuple[int, dict[str, Any]]


@contextmanager
def scripted_grader(answer: Callable[[dict[str, Any]], Reply]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Base URL and the requests so far. `answer(body)` returns a text, or a status and an error object."""
    requests: list[dict[str, Any]] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                requests.append({**body, "key": self.headers["authorization"]})
                said = answer(body)
            status, value = (200, completion(said, body)) if isinstance(said, str) else (said[0], {"error": said[1]})
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def completion(text: str, body: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "cost": 0.25}
    told = {"created": 1, "model": f"{body['model']}-2026", "usage": usage}
    return {"id": "1", "object": "chat.completion", "choices": choices, **told}
