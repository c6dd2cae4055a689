"""A vendor's token endpoint, as strict as the real ones: a refresh token is good once, and a second use ends the login.

with Vendor() as vendor: vendor.login(expires_in=-5) is the content of an auth.json; vendor.url is the endpoint
"""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ACCOUNT = "5f0f6c1e-account"


def jwt(**claims: Any) -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'RS256', 'typ': 'JWT'})}.{part(claims)}.{'c2lnbmF0dXJl' * 8}"


def codex_login(access: str, refresh: str, identity: str = "", account: str = ACCOUNT) -> dict[str, Any]:
    return {
        "OPENAI_API_KEY": None,
        "tokens": {
            "id_token": identity or access,
            "access_token": access,
            "refresh_token": refresh,
            "account_id": account,
        },
        "last_refresh": "2026-01-01T00:00:00.000000Z",
    }


class Vendor:
    """One account at one vendor. `requests` is what was asked; `answer` may be replaced by a status and a body."""

    def __init__(self, lifetime: float = 3600.0) -> None:
        self.lifetime = lifetime
        self.requests: list[dict[str, Any]] = []
        self.refreshes, self.reused, self.count = 0, 0, 0
        self.good = ""
        self.given: set[str] = set()
        self.answer: tuple[int, dict[str, Any]] | None = None
        self.hold: threading.Event | None = None  # answers wait for it
        self.asked = threading.Event()
        self._lock = threading.Lock()
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, said = vendor.serve(json.loads(body))
                data = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/oauth/token"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Vendor:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.hold is not None:
            self.hold.set()
        self.server.shutdown()
        self.server.server_close()

    def tokens(self, expires_in: float, issued_ago: float = 3600.0) -> dict[str, str]:
        self.count += 1
        now = time.time()
        claims = {"iat": int(now - issued_ago), "exp": int(now + expires_in), "n": self.count, "sub": "auth0|someone"}
        claims["https://api.openai.com/auth"] = {"chatgpt_account_id": ACCOUNT, "chatgpt_plan_type": "pro"}
        self.good = f"refresh-{self.count}-{'r4nd0m' * 9}"
        self.given.add(self.good)
        identity = jwt(**{**claims, "email": "someone@example.org", "kind": "identity"})
        return {"access_token": jwt(**claims), "refresh_token": self.good, "id_token": identity}

    def login(self, expires_in: float = 3600.0, issued_ago: float = 3600.0) -> bytes:
        new = self.tokens(expires_in, issued_ago)
        return json.dumps(codex_login(new["access_token"], new["refresh_token"], new["id_token"])).encode()

    def serve(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.requests.append(asked)
        self.asked.set()
        if self.hold is not None:
            self.hold.wait(30)
        with self._lock:
            if self.answer is not None:
                return self.answer
            if asked.get("grant_type") != "refresh_token" or asked.get("refresh_token") != self.good:
                self.reused += asked.get("refresh_token") in self.given
                return 401, {"error": {"code": "refresh_token_reused", "message": "used before"}}
            self.refreshes += 1
            return 200, self.tokens(self.lifetime, 0)
