"""What a job uses: processes, memory, disk, GPU; one sample is one line of `telemetry.jsonl` (H §1.8).

What a machine does not tell is absent from a sample and "not reported" in words, never 0. Standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptb_tui.core import clock
from ptb_tui.core.text import sanitize

NOT_REPORTED = "not reported"
SMI_TIMEOUT_S = 2.0
SMI_PAUSE_S = 60.0  # after a query that failed or hung
USED_EVERY_S = 300.0  # between two walks over the scratch
USED_LIMIT_S = 0.5  # for one walk
USED_ENTRIES = 100_000

_GPU_FIELDS = (
    "index", "uuid", "name", "utilization.gpu", "utilization.memory", "memory.used", "memory.total",
    "temperature.gpu", "power.draw",
)  # fmt: skip
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _stats() -> dict[int, tuple[int, float, int]]:
    """pid → (parent, CPU seconds of it and its reaped children, resident bytes) of all processes that can be read."""
    found: dict[int, tuple[int, float, int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
            text = file.read()
            fields = text[text.rfind(b")") + 2 :].split()
            cpu = sum(int(value) for value in fields[11:15]) / _TICKS
            found[int(name)] = (int(fields[1]), cpu, int(fields[21]) * _PAGE)
    return found


def process_tree(roots: Sequence[int]) -> dict[str, Any]:
    """CPU seconds, resident bytes and number of the processes below and including `roots`; empty when none lives."""
    stats = _stats()
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in stats.items():
        children.setdefault(parent, []).append(pid)
    todo, seen = [pid for pid in roots if pid in stats], set[int]()
    while todo:
        pid = todo.pop()
        if pid not in seen:
            seen.add(pid)
            todo += children.get(pid, [])
    if not seen:
        return {}
    return {
        "cpu_s": round(sum(stats[pid][1] for pid in seen), 2),
        "rss_bytes": sum(stats[pid][2] for pid in seen),
        "processes": len(seen),
    }


def memory() -> dict[str, int]:
    """Bytes of the machine's memory and swap; keys as in /proc/meminfo that are there."""
    wanted = {
        "MemTotal": "total_bytes", "MemFree": "free_bytes", "MemAvailable": "available_bytes",
        "SwapTotal": "swap_total_bytes", "SwapFree": "swap_free_bytes",
    }  # fmt: skip
    found: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in wanted:
                found[wanted[name]] = int(rest.split()[0]) * 1024
    return found


def used_below(folder: Path, seconds: float = USED_LIMIT_S) -> tuple[int, bool]:
    """Bytes on disk below a folder, and whether all of it was looked at. Bounded in time and entries."""
    limit = time.monotonic() + seconds
    todo, total, entries = [str(folder)], 0, 0
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as found:
            for entry in found:
                entries += 1
                if entries > USED_ENTRIES or (entries % 256 == 0 and time.monotonic() > limit):
                    return total, False
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False) and len(entry.path) < 3000:
                        todo.append(entry.path)
    return total, True


def parse_gpus(text: str, wanted: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Rows of nvidia-smi's CSV (`--format=csv,noheader,nounits`). A value it cannot tell is absent. Total."""
    rows: list[dict[str, Any]] = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != len(_GPU_FIELDS):
            continue
        row: dict[str, Any] = {name: sanitize(parts[at], limit=80) for at, name in enumerate(("index", "uuid", "name"))}
        if wanted and row["index"] not in wanted and row["uuid"] not in wanted:
            continue
        names = ("util_percent", "mem_util_percent", "mem_used_mib", "mem_total_mib", "temperature_c", "power_w")
        for name, value in zip(names, parts[3:], strict=True):
            with contextlib.suppress(ValueError):
                number = float(value)
                if 0 <= number < 1e9:
                    row[name] = number
        rows.append(row)
    return rows


class Sampler:
    """Takes samples. `pid_roots` may be changed between them; `gpus` are indexes or UUIDs, empty for all there are."""

    def __init__(self, pid_roots: Sequence[int], scratch: Path, gpus: Sequence[str]) -> None:
        self.pid_roots: Sequence[int] = list(pid_roots)
        self.scratch, self.gpus = scratch, tuple(gpus)
        self._smi = shutil.which("nvidia-smi")
        self._smi_due = 0.0
        self._used: tuple[int, bool] | None = None
        self._used_due = 0.0

    def _query(self, what: str, fields: str) -> str | None:
        if self._smi is None or time.monotonic() < self._smi_due:
            return None
        try:
            done = subprocess.run(
                [self._smi, f"--query-{what}={fields}", "--format=csv,noheader,nounits"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SMI_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            done = None
        if done is None or done.returncode != 0:
            self._smi_due = time.monotonic() + SMI_PAUSE_S
            return None
        return done.stdout.decode("utf-8", "replace")

    def _disk(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        with contextlib.suppress(OSError):
            space = os.statvfs(self.scratch)
            found["total_bytes"] = space.f_blocks * space.f_frsize
            found["free_bytes"] = space.f_bavail * space.f_frsize
            if space.f_files:
                found["free_files"] = space.f_favail
        if time.monotonic() >= self._used_due:
            self._used_due = time.monotonic() + USED_EVERY_S
            self._used = used_below(self.scratch)
        if self._used is not None:
            found["scratch_bytes"], found["scratch_whole"] = self._used
        return found

    def sample(self) -> dict[str, Any]:
        """One sample, made in some milliseconds (2 s at most for each of two GPU queries). Never raises OSError."""
        found: dict[str, Any] = {"v": 1, "t": clock.utc_text(), "mono": round(clock.monotonic(), 3)}
        with contextlib.suppress(OSError):
            found["job"] = process_tree(self.pid_roots)
        with contextlib.suppress(OSError):
            found["load"] = [round(value, 2) for value in os.getloadavg()]
        found["memory"] = memory()
        found["disk"] = self._disk()
        if (text := self._query("gpu", ",".join(_GPU_FIELDS))) is not None:
            found["gpus"] = parse_gpus(text, self.gpus)
            if (text := self._query("compute-apps", "pid,used_memory,process_name")) is not None:
                lines = [sanitize(line.strip(), limit=160, newlines=False) for line in text.splitlines()]
                found["gpu_processes"] = [line for line in lines if line][:64]
        return found


def _amount(value: object, unit: str) -> str:
    return f"{value:g} {unit}".strip() if isinstance(value, int | float) else "[N/A]"


def _size(value: object) -> str:
    if not isinstance(value, int | float):
        return NOT_REPORTED
    size = float(value)
    for unit in ("B", "Ki", "Mi", "Gi"):
        if size < 1024:
            return f"{size:.0f}{unit}" if unit == "B" or size >= 10 else f"{size:.1f}{unit}"
        size /= 1024
    return f"{size:.1f}Ti"


def public_header(interval_s: float) -> str:
    """The beginning of `system_monitor.log`."""
    start = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"=== System Monitor Started (interval: {interval_s:g}s) ===\nStart time: {start}\n\n"


def public_block(sample: dict[str, Any]) -> str:
    """One block of `system_monitor.log` (H §1.8 System monitor)."""
    stamp = str(sample.get("t", ""))[:19].replace("T", " ")
    lines = [f"--- {stamp} UTC ---", "[GPU]"]
    gpus = sample.get("gpus")
    for row in gpus or ():
        values = [
            str(row.get("index", "?")),
            _amount(row.get("util_percent"), "%"),
            _amount(row.get("mem_util_percent"), "%"),
            _amount(row.get("mem_used_mib"), "MiB"),
            _amount(row.get("mem_total_mib"), "MiB"),
            _amount(row.get("temperature_c"), ""),
            _amount(row.get("power_w"), "W"),
        ]
        lines.append(", ".join(values))
    if not gpus:
        lines.append(f"  {NOT_REPORTED}")
    processes = sample.get("gpu_processes")
    lines += ["[GPU Processes]", *(processes or [f"  {NOT_REPORTED if processes is None else 'none'}"])]
    load = sample.get("load")
    average = ", ".join(f"{value:.2f}" for value in load) if load else NOT_REPORTED
    job = sample.get("job") or {}
    lines += ["[CPU]", f" {stamp[11:]} load average: {average}"]
    if job:
        lines.append(
            f"  job: {job['processes']} processes, {job['cpu_s']:.0f} s CPU, {_size(job['rss_bytes'])} resident"
        )
    mem = sample.get("memory") or {}
    lines += ["[Memory]", _memory_row("Mem:", mem, "total_bytes", "free_bytes", "available_bytes")]
    lines.append(_memory_row("Swap:", mem, "swap_total_bytes", "swap_free_bytes"))
    disk = sample.get("disk") or {}
    used = _size(disk.get("scratch_bytes")) + ("" if disk.get("scratch_whole", True) else " or more")
    lines += ["[Disk]", f"total {_size(disk.get('total_bytes'))}, free {_size(disk.get('free_bytes'))}"]
    lines += [f"  Task dir: {used}", "", ""]
    return "\n".join(lines)


def _memory_row(title: str, mem: dict[str, int], total: str, free: str, available: str = "") -> str:
    have = mem.get(total), mem.get(free)
    used = have[0] - have[1] if have[0] is not None and have[1] is not None else None
    if available and have[0] is not None and available in mem:
        used = have[0] - mem[available]
    columns = [have[0], used, have[1], *([mem.get(available)] if available else [])]
    return f"{title:<6}" + "".join(f"{_size(value):>12}" for value in columns)
