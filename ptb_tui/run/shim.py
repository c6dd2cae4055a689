"""The process directly above a step's command: holds its output, its deadline and its exit record (design §5).

    shim ── command (own session, stdout and stderr into a pipe)
         ├─ cat   (own session) pipe → <scratch>/raw
         └─ companion, when the launch names one; started again when it dies

Nothing that can be killed, upgraded or blocked stands between a command and its output: the shim keeps the pipe's
reading end open and starts `cat` again if it dies. Everything is imported at the start; the shim needs the results
tree only for its last act. Standard library alone.

Reads `<scratch>/launch.json` {argv, cwd, limits, deadline_s, grace_s, runtime, began, starter, companion, listen} and
the exact environment as JSON from stdin. Writes `<scratch>/shim.json` (identities) and `exit.json` in the scratch and
in the step's folder. SIGTERM stops the command; the reason is in `<scratch>/stop.json`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.run import processes
from ptb_tui.run.zero import LOOK_S, Zero
from ptb_tui.sandbox import base as sandbox

LEFTOVER_S = 30.0  # to end what the command left behind
RELAY_S = 10.0  # for the relay to drain the pipe
RELAY_WAIT_S = 0.2  # before a relay that died is started again; more each time, as with the companion
LONGEST_WAIT_S = 5.0
RUNTIME_BYTES = 16 << 10  # of a trace that holds a runtime's words alone
_RUNTIME = re.compile(  # how lines of a runtime that fails begin
    r"(\x1b\[[0-9;]*m)*((FATAL|ERROR|WARNING|INFO|VERBOSE|DEBUG|panic|fatal error|runtime)\b|"
    r"(/\S*/)?(bwrap|fuse[\w-]*|squashfuse\w*|apptainer|singularity|starter\w*|sh|mount): )"
)
RESERVE = 16 << 20  # bytes of the scratch held back for our own last words, in case the command fills the disk
FULL = 1 << 20  # a disk with less room than this counts as full


def _oom_kills() -> int:
    """How often the kernel killed for memory in our cgroup; 0 where that is not told."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        group = Path("/proc/self/cgroup").read_text().rsplit("::", 1)[1].strip()
        for line in Path(f"/sys/fs/cgroup{group}/memory.events").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _runtime_words(path: Path) -> str:
    """The end of what a runtime printed, for a message. Empty when it is more than a runtime says: an agent did."""
    text = ""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        text = file.read(RUNTIME_BYTES + 1).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "it says nothing"
    own = any(_RUNTIME.match(line) for line in (lines[0], lines[-1]))
    return " ".join(text.split())[-400:] if own and len(text) <= RUNTIME_BYTES else ""


def _listen(port: object) -> tuple[socket.socket | None, str]:
    """A port of the host's loopback for the companion: held here, so that it is taken before the command begins and
    requests wait while a companion is started again. None when there is none to hold; and why one could not be had."""
    if not isinstance(port, int) or not 0 < port < 65536:
        return None, ""
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(64)
    except OSError as error:
        listening.close()
        return None, f"port {port} of 127.0.0.1, where the login is to be renewed, is not to be had: {error.strerror}"
    return listening, ""


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
        self.relay_due = 0.0
        self.relay_wait = RELAY_WAIT_S
        self.wake_r, wake_w = os.pipe()
        os.set_blocking(wake_w, False)
        os.set_blocking(self.wake_r, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)  # not SIG_IGN, which the command would inherit
        signal.signal(signal.SIGTERM, self._asked)
        self.raw = os.open(scratch / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.pipe_r, self.pipe_w = os.pipe()
        self.listening, self.problem = _listen(self.launch.get("listen"))

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
            preexec_fn=(lambda: sandbox.apply_limits(limits)) if limits else None,
        )

    def _hold_room(self) -> None:
        """Keep room for the exit record and what the follower notes, which a full disk would refuse otherwise."""
        with contextlib.suppress(OSError), open(self.scratch / "reserve", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE)

    def _full(self) -> bool:
        """Whether the scratch's disk has no room left beyond what we hold."""
        with contextlib.suppress(OSError):
            space = os.statvfs(self.scratch)
            return (space.f_bavail if os.geteuid() else space.f_bfree) * space.f_frsize < FULL
        return False

    def _tend_relay(self, *, last: bool = False) -> None:
        """Keep a relay alive, but not at any rate: it ends at once where the command closed its output or filled the
        disk. `last`: whatever is still in the pipe has to go now.
        """
        if self.relay in self.statuses:
            del self.statuses[self.relay]
            self.relay = 0
            self.relay_due = clock.monotonic() + self.relay_wait
            self.relay_wait = min(LONGEST_WAIT_S, self.relay_wait * 2)
        if not self.relay and (last or clock.monotonic() >= self.relay_due):
            self._start_relay()

    def _tend(self) -> None:
        """Keep relay and companion alive."""
        self._tend_relay()
        argv = self.launch.get("companion")
        if not argv:
            return
        if self.companion in self.statuses:
            del self.statuses[self.companion]
            self.companion = 0
            self.companion_due = clock.monotonic() + self.companion_wait
            self.companion_wait = min(LONGEST_WAIT_S, self.companion_wait * 2)
        if not self.companion and clock.monotonic() >= self.companion_due:
            held = (self.listening.fileno(),) if self.listening else ()
            more: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": "/", "pass_fds": held}
            with open(self.scratch / "companion.log", "ab") as log:
                self.companion = self._start([*argv, *map(str, held)], stdout=log, stderr=log, **more)

    def _tree(self) -> list[int]:
        """What the command started: not the relay, the companion, or a renewal of a login that outlives its companion,
        whose loss in the middle would lose the login; a judge's companions are those of its sessions."""
        spare = [self.relay, self.companion]
        for folder in (self.scratch, *self.scratch.glob("try-*")):
            renewal = clock.process_from(files.read_object(folder / "renewing.json", 4096))
            spare += [renewal.pid] if renewal and clock.alive(renewal) else []
        return processes.descendants(os.getpid(), spare=spare)

    def _end_command(self, grace: float) -> bool:
        """TERM to everything of the command but what holds its sandbox, then KILL. True when KILL was needed."""
        for pid in processes.polite(self._tree(), str(self.launch.get("runtime") or "")):
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
        self._hold_room()
        grace = float(self.launch.get("grace_s", 30))
        self._start_relay()
        problem = self.problem
        if not problem:
            self._tend()
        began = Path(str(self.launch["began"])) if self.launch.get("began") else None
        start, wall = clock.monotonic(), time.time()
        zero = Zero(str(self.launch.get("starter") or ""), start, began)
        agent_start: float | None = None
        try:
            if not problem:
                self._start_command()
        except (OSError, subprocess.SubprocessError) as error:
            problem = f"{self.launch['argv'][0]}: {error}"
        if problem:
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
            if not zero.known and (moment := zero.look(self._tree())) is not None:
                agent_start, deadline = moment, moment + float(self.launch["deadline_s"])
            left = deadline - clock.monotonic() if zero.known else LOOK_S
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
            self._nap(min(left, 2.0 if self.relay else 0.1))
        end = clock.monotonic()
        left_alive = self._end_rest()
        full = self._full()
        self._tend_relay(last=True)
        limit = clock.monotonic() + RELAY_S
        while self.relay not in self.statuses and clock.monotonic() < limit:
            self._nap(0.1)
        for pid in (self.relay, self.companion):
            if pid and pid not in self.statuses:
                processes.send(pid, signal.SIGTERM)
        if not (stopped or problem or zero.has_begun()) and (words := _runtime_words(self.scratch / "raw")):
            problem = f"the sandbox did not start: {words}"
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
                "zero_s": round(agent_start - start, 3) if agent_start is not None else None,
                "boot": clock.boot_id(),
                "left_alive": left_alive,
                "oom": _oom_kills() > oom_before,
                "full": full,
            }
        )
        (self.scratch / "reserve").unlink(missing_ok=True)
        written = 0
        for folder in (self.scratch, self.step):  # the supervisor copies it when the results tree refuses now
            with contextlib.suppress(OSError):
                files.replace(folder / "exit.json", record)
                written += 1
        return 0 if written else 1


def main(argv: Sequence[str]) -> int:
    """Internal verb `shim SCRATCH STEP`."""
    scratch, step = (Path(part) for part in argv)
    env = json.load(sys.stdin)
    processes.become_subreaper()
    return Shim(scratch, step, env).run()
