"""Companions of several runs around one login, started like the shim starts them and killed like anything is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.run.sources.login import free_port
from ptb_tui.supplies.credentials import state_stem
from ptb_tui.supplies.logins import placeholder, read_login
from tests.polling import until as until

REPOSITORY = Path(__file__).parents[2]
ENTRY = str(REPOSITORY / "ptb_tui" / "__main__.py")


@dataclass
class Companion:
    """One companion, kept running by a thread as the shim does."""

    scratch: Path
    login: Path
    token_url: str
    config_home: Path
    port: int = field(default_factory=free_port)
    secret: str = "/an-unguessable-path-0123456789"

    def __post_init__(self) -> None:
        self.scratch.mkdir(parents=True)
        found = read_login(self.login.read_bytes())
        assert found is not None
        self.access, self.refresh = found.access, placeholder(found.access)
        broker = {
            "login": str(self.login),
            "state": str(state_stem(self.config_home, self.login)),
            "token_url": self.token_url,
            "client_id": "app_test",
            "secret": self.secret,
            "port": self.port,
            "listen": True,
        }
        said = {"socket": None, "ledger": str(self.scratch / "ledger"), "allow": None, "broker": broker}
        (self.scratch / "companion.json").write_text(json.dumps(said))
        self.process: subprocess.Popen[bytes] | None = None
        self.over = threading.Event()
        self.keeper = threading.Thread(target=self._keep)
        self.keeper.start()

    def _keep(self) -> None:
        while not self.over.is_set():
            with open(self.scratch / "log", "ab") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-I", ENTRY, "companion", str(self.scratch)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
                )
            while self.process.poll() is None:
                if self.over.wait(0.02):
                    self.process.terminate()
                    self.process.wait(20)
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """SIGKILL, whatever it is doing."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)

    def close(self) -> None:
        self.over.set()
        self.keeper.join(30)

    def post(self, body: bytes, path: str | None = None, kind: str = "application/json") -> tuple[int, Any]:
        """One request; OSError when the companion is away."""
        url = f"http://127.0.0.1:{self.port}{self.secret if path is None else path}"
        request = urllib.request.Request(url, body, {"Content-Type": kind}, method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def renew(self) -> tuple[int, Any]:
        """Ask like a CLI does, again for as long as nobody answers; what is given is what the CLI has from then on."""
        body = json.dumps(
            {"client_id": "app_cli", "grant_type": "refresh_token", "refresh_token": self.refresh}
        ).encode()
        limit = time.monotonic() + 60
        while True:
            try:
                status, said = self.post(body)
            except (OSError, ValueError):
                assert time.monotonic() < limit
                time.sleep(0.02)
                continue
            if status == 200:
                self.access, self.refresh = said["access_token"], said["refresh_token"]
            return status, said
