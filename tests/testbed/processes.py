"""The processes of hosts: which are up, and how to run something in one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.testbed.place import RUN, Problem, put

ENV = ("/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8")


@dataclass(frozen=True)
class Up:
    """A host that runs: the process on this machine that ends with it, its process 1, and when it booted (unix s)."""

    outer: int
    started: str
    init: int
    booted: int


def started_at(pid: int) -> str | None:
    """A process's start time: with it, a pid used again is never taken for ours. None when it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = text.rsplit(")", 1)[1].split()
    return None if state == "Z" else rest[18]


def state(host: str, run: Path = RUN) -> Up | None:
    """The host's processes, or None when it is down."""
    try:
        up = Up(**json.loads((run / "hosts" / host / "pid.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return up if started_at(up.outer) == up.started else None


def note(host: str, up: Up) -> None:
    """Puts a host's processes on file."""
    put(RUN / "hosts" / host / "pid.json", json.dumps(asdict(up)))


def forget(host: str) -> None:
    """Takes a host that is down off the file."""
    (RUN / "hosts" / host / "pid.json").unlink(missing_ok=True)


def anything_up(base: Path) -> bool:
    """Whether a host of any testbed in this folder runs."""
    return any(state(path.parent.name, path.parents[2]) for path in base.glob("run-*/hosts/*/pid.json"))


def root_of(host: str) -> Path:
    """The host's / as this machine sees it. Problem when it is down."""
    return Path(f"/proc/{_init(host)}/root")


def words_inside(host: str, command: Sequence[str], user: str = "root") -> list[str]:
    """The command line that runs a command in a host without ssh, with a login environment for a normal user."""
    enter = ("nsenter", "-t", str(_init(host)), "-m", "-u", "-i", "-n", "-p", "--", *ENV)
    become = () if user == "root" else ("runuser", "-l", user, "-c", 'exec "$@"', "--", "sh")
    return [*enter, *become, *command]


def run_inside(
    host: str, *command: str, user: str = "root", stdin: str = "", timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a host and waits for it: exit status 124 when `timeout` seconds were not enough.

    The limit is kept inside the host: what is left of a killed nsenter would go on and hold the pipes open.
    """
    words = words_inside(host, ("timeout", "-k", "5", f"{timeout:g}", *command), user)
    return subprocess.run(words, input=stdin, text=True, capture_output=True, timeout=timeout + 30, check=False)


def _init(host: str) -> int:
    up = state(host)
    if not up:
        raise Problem(f"{host} is not up (python -m tests.testbed up {host})")
    return up.init
