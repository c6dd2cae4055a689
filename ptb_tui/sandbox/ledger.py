"""The egress ledger: one JSON object a line, append-only, written by the gateway on the host's side of the sandbox.

Keys: `v` 1, `time` (UTC, when the request came), `id` (of one request within the ledger), `outcome`, `method`, `host`,
`port`, `up` and `down` (bytes the sandbox sent and received after the request's head), `seconds`, `reason`, `via`
("proxy" when the site's proxy carried it), and `count` where a line stands for many. Outcomes: `open` (a connection
was made; a later line with its `id` closes it, unless the gateway was killed), `allowed` (it ended), `refused` (by the
rules), `failed` (by the network or the request).
A client that floods the ledger gets its requests counted by host, port and outcome instead of listed one by one.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.core.clock import monotonic, utc_text

BURST = 2000  # lines that may be written at once
RATE = 5.0  # lines a second that come back
KINDS = 200  # different hosts, ports and outcomes that are counted apart between two flushes


@dataclass(slots=True)
class Folded:
    """Requests that were counted, not listed."""

    time: str
    count: int = 0
    up: int = 0
    down: int = 0
    seconds: float = 0.0


class Ledger:
    """An open ledger. Only its folder must exist; OSError when the file cannot be opened."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        self._prefix = uuid.uuid4().hex[:8]
        self._number = 0
        self._tokens = float(BURST)
        self._then = monotonic()
        self._folded: dict[tuple[str, int, str], Folded] = {}
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":  # a writer was killed within a line
            os.write(self._fd, b"\n")

    def next_id(self) -> str:
        """A fresh id for one request."""
        self._number += 1
        return f"{self._prefix}-{self._number}"

    def add(self, record: dict[str, Any]) -> None:
        """Write one record, or count it when there are too many or the disk is full. Never raises."""
        now = monotonic()
        self._tokens = min(float(BURST), self._tokens + (now - self._then) * RATE)
        self._then = now
        if self._tokens >= 1 and self._write(record):
            self._tokens -= 1
            return
        if record["outcome"] == "open":
            return  # its end will be counted
        key = (record["host"], record["port"], record["outcome"])
        if key not in self._folded and len(self._folded) >= KINDS:
            key = ("*", 0, record["outcome"])
        folded = self._folded.setdefault(key, Folded(record["time"]))
        folded.count += 1
        folded.up += record["up"]
        folded.down += record["down"]
        folded.seconds += record["seconds"]

    def flush(self) -> None:
        """Write what was counted. To be called about once a minute, and at the end."""
        for key, folded in list(self._folded.items()):
            record = {
                "time": folded.time,
                "id": self.next_id(),
                "outcome": key[2],
                "method": "",
                "host": key[0],
                "port": key[1],
                "up": folded.up,
                "down": folded.down,
                "seconds": round(folded.seconds, 3),
                "reason": "counted: too many to list",
                "via": "",
                "count": folded.count,
            }
            if self._write(record):
                del self._folded[key]

    def close(self) -> None:
        """Flush and close; closing again does nothing."""
        if self._fd >= 0:
            self.flush()
            os.close(self._fd)
            self._fd = -1

    def _write(self, record: dict[str, Any]) -> bool:
        line = (json.dumps({"v": 1, **record}, separators=(",", ":")) + "\n").encode()
        try:
            written = os.write(self._fd, line)
            if 0 < written < len(line):  # disk full within the line: end it, so that the next one is whole
                os.write(self._fd, b"\n")
        except OSError:
            return False
        return written == len(line)


def record(ledger: Ledger, method: str, host: str, port: int) -> dict[str, Any]:
    """A record that begins now."""
    return {
        "time": utc_text(),
        "id": ledger.next_id(),
        "outcome": "failed",
        "method": method,
        "host": host,
        "port": port,
        "up": 0,
        "down": 0,
        "seconds": 0.0,
        "reason": "",
        "via": "",
    }
