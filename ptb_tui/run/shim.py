"""The process directly above a step's command: holds its output, its deadline and its exit record (design §5).

    shim ── command (own session, stdout and stderr into a pipe)
         ├─ cat   (own session) pipe → <scratch>/raw
         └─ companion, when the launch names one; started again when it dies

Nothing that can be killed, upgraded or blocked stands between a command and its output: the shim keeps the pipe's
reading end open and starts `cat` again if it dies. Everything is imported at the start; the shim needs the results
tree only for its last act. Standard library alone.

Reads `<scratch>/launch.json` {argv, cwd, limits, deadline_s, grace_s, runtime, companion} and the exact environment as
JSON from stdin. Writes `<scratch>/shim.json` (identities) and `exit.json` in the scratch and in the step's folder.
SIGTERM stops the command; the reason is in `<scratch>/stop.json`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.run import processes
from ptb_tui.sandbox.base import apply_limits

LEFTOVER_S = 30.0  # to end what the command left behind
RELAY_S = 10.0  # for the relay to drain the pipe


def _oom_kills() -> int:
    """How often the kernel killed for memory in our cgroup; 0 where that is not told."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        group = Path("/proc/self/cgroup").read_text().rsplit("::", 1)[1].strip()
        for line in Path(f"/sys/fs/cgroup{group}/memory.events").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


class Shim:
    """One command from start to exit record."""

    def __init__(self, scratch: Path, step: Path, env: dict[str, str]) -> None:
        self.scratch, self.step, self.env = scratch, step, env
        self.launch: dict[str, Any] = json.loads((scratch / "launch.json").read_text("utf-8"))
        self.statuses: dict[int, int] = {}
        self.stop_asked = False
        self.relay = self.companion = self.command = 0
        self.children: list[subprocess.Popen[bytes]] = []  # held, or subprocess would reap them behind our back
        self.companion_due = 0.0
        self.companion_wait = 0.2
        self.wake_r, wake_w = os.pipe()
        os.set_blocking(wake_w, False)
        os.set_blocking(self.wake_r, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)  # not SIG_IGN, which the command would inherit
        signal.signal(signal.SIGTERM, self._asked)
        self.raw = os.open(scratch / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.pipe_r, self.pipe_w = os.pipe()

    def _asked(self, *_: object) -> None:
        self.stop_asked = True

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.statuses[pid] = status

    def _nap(self, seconds: float) -> None:
        """Until a signal arrives, at most `seconds`."""
        select.select([self.wake_r], [], [], max(0.0, seconds))
        with contextlib.suppress(BlockingIOError):
            while os.read(self.wake_r, 4096):
                pass
        self._reap()

    def _start(self, argv: list[str], **options: Any) -> int:
        self.children.append(subprocess.Popen(argv, start_new_session=True, **options))
        return self.children[-1].pid

    def _start_relay(self) -> None:
        self.relay = self._start(
            ["cat"],
            stdin=self.pipe_r,
            stdout=self.raw,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath + ":/usr/bin:/bin", "PTB_RELAY": str(self.scratch)},  # found when the shim is gone
        )

    def _start_command(self) -> None:
        limits = self.launch.get("limits") or {}
        self.command = self._start(
            self.launch["argv"],
            cwd=self.launch["cwd"],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=self.pipe_w,
            stderr=self.pipe_w,
            preexec_fn=(lambda: apply_limits(limits)) if limits else None,
        )

    def _tend(self) -> None:
        """Keep relay and companion alive."""
        if self.relay in self.statuses:
            del self.statuses[self.relay]
            self._start_relay()
        argv = self.launch.get("companion")
        if not argv:
            return
        if self.companion in self.statuses:
            del self.statuses[self.companion]
            self.companion = 0
            self.companion_due = clock.monotonic() + self.companion_wait
            self.companion_wait = min(5.0, self.companion_wait * 2)
        if not self.companion and clock.monotonic() >= self.companion_due:
            with open(self.scratch / "companion.log", "ab") as log:
                self.companion = self._start(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    def _tree(self) -> list[int]:
        return processes.descendants(os.getpid(), spare=(self.relay, self.companion))

    def _end_command(self, grace: float) -> bool:
        """TERM to everything of the command but the sandbox's own process, then KILL. True when KILL was needed."""
        runtime = str(self.launch.get("runtime") or "")
        tree = self._tree()
        inner = [pid for pid in tree if not (runtime and processes.runs_file(pid, runtime))]
        for pid in inner or tree:
            processes.send(pid, signal.SIGTERM)
        limit = clock.monotonic() + grace
        while self.command not in self.statuses and clock.monotonic() < limit:
            self._nap(min(0.5, limit - clock.monotonic()))
            self._tend()
        if self.command in self.statuses:
            return False
        for pid in self._tree():
            processes.send(pid, signal.SIGKILL)
        return True

    def _end_rest(self) -> list[int]:
        """Kill what the command left alive, daemons included; returns what would not die."""
        limit = clock.monotonic() + LEFTOVER_S
        while tree := self._tree():
            for pid in tree:
                processes.send(pid, signal.SIGKILL)
            if clock.monotonic() > limit:
                return tree
            self._nap(0.05)
        return []

    def run(self) -> int:
        """Start, wait, stop when asked or due, record."""
        oom_before = _oom_kills()
        grace = float(self.launch.get("grace_s", 30))
        self._start_relay()
        self._tend()
        problem = ""
        start, wall = clock.monotonic(), time.time()
        try:
            self._start_command()
        except (OSError, subprocess.SubprocessError) as error:
            problem = f"{self.launch['argv'][0]}: {error}"
            os.write(self.pipe_w, f"[ptb] the command could not be started: {problem}\n".encode())
        os.close(self.pipe_w)
        identity = clock.identify(self.command) if self.command else None
        files.replace(
            self.scratch / "shim.json",
            files.dump(
                {
                    "shim": clock.this_process().to_json(),
                    "command": identity.to_json() if identity else None,
                    "start": start,
                }
            ),
        )
        deadline = start + float(self.launch["deadline_s"])
        stopped, killed = "", False
        while self.command and self.command not in self.statuses:
            left = deadline - clock.monotonic()
            if self.stop_asked or left <= 0:
                stopped = "deadline"
                if self.stop_asked:
                    stopped = str((files.read_object(self.scratch / "stop.json") or {}).get("why") or "signal")
                killed = self._end_command(grace)
                limit = clock.monotonic() + LEFTOVER_S
                while self.command not in self.statuses and clock.monotonic() < limit:
                    self._nap(0.2)
                break
            self._tend()
            self._nap(min(left, 2.0))
        end = clock.monotonic()
        left_alive = self._end_rest()
        limit = clock.monotonic() + RELAY_S
        while self.relay not in self.statuses and clock.monotonic() < limit:
            self._nap(0.1)
        for pid in (self.relay, self.companion):
            if pid and pid not in self.statuses:
                processes.send(pid, signal.SIGTERM)
        status = self.statuses.get(self.command)
        code = os.waitstatus_to_exitcode(status) if status is not None else None
        record = files.dump(
            {
                "v": 1,
                "rc": code if code is not None and code >= 0 else None,
                "signal": -code if code is not None and code < 0 else None,
                "stopped": stopped,
                "killed": killed,
                "problem": problem,
                "elapsed_s": round(end - start, 3),
                "started": clock.utc_text(wall),
                "ended": clock.utc_text(),
                "mono_start": start,
                "mono_end": end,
                "boot": clock.boot_id(),
                "left_alive": left_alive,
                "oom": _oom_kills() > oom_before,
            }
        )
        files.replace(self.scratch / "exit.json", record)
        with contextlib.suppress(OSError):  # the supervisor copies it when the results tree refuses now
            files.replace(self.step / "exit.json", record)
        return 0


def main(argv: Sequence[str]) -> int:
    """Internal verb `shim SCRATCH STEP`."""
    scratch, step = (Path(part) for part in argv)
    env = json.load(sys.stdin)
    processes.become_subreaper()
    return Shim(scratch, step, env).run()
