"""Times and process identities that survive clock steps and pid reuse (local_queue C.3). Standard library alone."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@cache
def boot_id() -> str:
    """Identity of this boot of this machine; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def monotonic() -> float:
    """Seconds since boot, suspended time included. Comparable only within one boot."""
    return time.clock_gettime(_BOOTTIME)


def utc_text(when: float | None = None) -> str:
    """Wall time as `2026-08-04T12:34:56.789Z`; now when `when` (Unix seconds) is absent."""
    moment = datetime.fromtimestamp(time.time() if when is None else when, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


@dataclass(frozen=True, slots=True)
class Process:
    """Identity of a process: pid alone may be used again within a day."""

    pid: int
    start: int  # clock ticks since boot, field 22 of /proc/<pid>/stat
    boot: str

    def to_json(self) -> dict[str, int | str]:
        """Plain form for our files."""
        return {"pid": self.pid, "start": self.start, "boot": self.boot}


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    return text[text.rfind(")") + 2 :].split()  # the name in brackets may hold anything


def identify(pid: int) -> Process | None:
    """The identity of a living process; None when it is gone or a zombie."""
    fields = _stat_fields(pid)
    if fields is None or len(fields) < 20 or fields[0] in "ZX":
        return None
    return Process(pid, int(fields[19]), boot_id())


def this_process() -> Process:
    """The identity of the caller."""
    return identify(os.getpid()) or Process(os.getpid(), 0, boot_id())


def process_from(value: object) -> Process | None:
    """Read an identity from one of our files; None when it is not one."""
    if not isinstance(value, dict):
        return None
    pid, start, boot = value.get("pid"), value.get("start"), value.get("boot")
    if isinstance(pid, int) and isinstance(start, int) and isinstance(boot, str):
        return Process(pid, start, boot)
    return None


def alive(process: Process | None) -> bool:
    """Whether exactly this process still runs."""
    return process is not None and process.boot == boot_id() and identify(process.pid) == process


def gone(owner: Mapping[str, object]) -> bool:
    """Whether `{host, process}` of a file of ours names a process of this machine that is no longer there.

    False when that cannot be told: what another machine wrote is believed.
    """
    process = process_from(owner.get("process"))
    return process is not None and owner.get("host") == socket.gethostname() and not alive(process)
