"""How an agent's phase ended, as the public files say it: `time_taken.txt` and the lines of H §1.9 in `output.log`."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from ptb_tui.core import files, names
from ptb_tui.core.text import sanitize

BEGIN, END = "--- SOLVE DIAGNOSTICS ---", "--- END SOLVE DIAGNOSTICS ---"


@dataclass(frozen=True, slots=True)
class ExitFacts:
    """How the agent ended; from the shim's `exit.json`."""

    rc: int | None = None
    signal: int | None = None
    stopped: str = ""
    elapsed_s: float | None = None


def exit_facts_of(step_folder: Path, scratch: Path) -> ExitFacts:
    """Read the shim's record from the step's folder, else from the scratch; empty facts when there is none."""
    record = files.read_object(step_folder / "exit.json") or files.read_object(scratch / "exit.json") or {}

    def number(name: str) -> int | None:
        value = record.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    elapsed = record.get("elapsed_s")
    if isinstance(elapsed, bool) or not isinstance(elapsed, int | float) or not 0 <= elapsed < 1e9:
        elapsed = None
    return ExitFacts(number("rc"), number("signal"), str(record.get("stopped") or ""), elapsed)


def status_words(facts: ExitFacts, hours: float | None) -> str:
    """The status line of the diagnostics."""
    if facts.stopped == "deadline":
        return f"killed by timeout (reached {names.format_hours(hours) if hours else '?'}h limit)"
    if facts.stopped:
        return f"stopped ({sanitize(facts.stopped, limit=60, newlines=False)})"
    if facts.signal:
        try:
            name = signal.Signals(facts.signal).name.removeprefix("SIG")
        except ValueError:
            name = "?"
        return f"killed by signal {facts.signal} ({name})"
    if facts.rc is None:
        return "no exit record"
    return "exited normally" if facts.rc == 0 else f"exited with error code {facts.rc}"


def _memory() -> str:
    found: dict[str, int] = {}
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, value = line.partition(":")
            found[name] = int(value.split()[0]) // 1024
        total, free, available = found["MemTotal"], found["MemFree"], found["MemAvailable"]
    except (OSError, ValueError, KeyError, IndexError):
        return "not reported"
    return f"total={total}MB used={total - available}MB free={free}MB"


def diagnostics(facts: ExitFacts, hours: float | None, model_entries: int, scratch: Path) -> str:
    """The block of H §1.9. `exit_code` is 128 + n for signal n, as shells count."""
    code = 128 + facts.signal if facts.signal else facts.rc
    try:
        space = os.statvfs(scratch)
        free = f"{space.f_bavail * space.f_frsize >> 20}MB free"
    except OSError:
        free = "not reported"
    lines = [
        f"exit_code: {'not recorded' if code is None else code}",
        f"status: {status_words(facts, hours)}",
        f"final_model_files: {model_entries}",
        f"hostname: {sanitize(socket.gethostname(), limit=200, newlines=False)}",
        f"disk_job_dir: {free}",
        f"memory: {_memory()}",
    ]
    return "\n".join([BEGIN, *lines, END, ""])


def time_taken(seconds: float) -> str:
    """`HH:MM:SS`, hours may exceed 99 (H §1.8)."""
    whole = max(0, int(seconds))
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}\n"
