"""The testbed as tests use it: hosts by name, commands in them, and one use counted per process.

The first user brings up what was down and the last one takes it away; hosts that somebody had brought up before stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.testbed import lifecycle, network, processes, rootfs
from tests.testbed.hosts import HOSTS
from tests.testbed.place import BASE, NAME, RUN, locked
from tests.testbed.runtime import INSIDE, PRODUCT

Done = subprocess.CompletedProcess[str]


class Bed:
    """Hosts that are brought up when a test first names them."""

    python = f"{INSIDE}/bin/python"  # with all packages of this environment; the product is importable
    runtime = str(INSIDE)
    product = str(PRODUCT)
    image = "/opt/images/standard.sif"

    def up(self, *hosts: str) -> None:
        """Brings hosts up, and those they need, unless they are."""
        with locked():
            lifecycle.up(hosts)

    def run(self, host: str, *command: str, user: str = "alice", stdin: str = "", timeout: float = 60) -> Done:
        """Runs a command in a host that is up, in the user's home and with a login environment."""
        return processes.run_inside(host, *command, user=user, stdin=stdin, timeout=timeout)

    def output(self, host: str, *command: str, user: str = "alice", stdin: str = "", timeout: float = 60) -> str:
        """Standard output of a command that must succeed."""
        done = self.run(host, *command, user=user, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, f"{shlex.join(command)} on {host}: exit {done.returncode}: {done.stderr[-2000:]}"
        return done.stdout

    def start(self, host: str, *command: str, user: str = "alice") -> subprocess.Popen[str]:
        """Starts a command in a host. Killing the process returned ends nothing but itself: signal it in the host."""
        words = processes.words_inside(host, command, user)
        pipe = subprocess.PIPE
        return subprocess.Popen(words, text=True, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)

    def ssh(self, host: str, command: str, user: str = "alice", stdin: str = "", timeout: float = 60) -> Done:
        """Runs a line of shell over a new ssh connection."""
        words = ["ssh", "-F", str(self.ssh_config), "-l", user, host, command]
        return subprocess.run(words, text=True, input=stdin, capture_output=True, timeout=timeout, check=False)

    @property
    def ssh_config(self) -> Path:
        """An ssh configuration with which every host is reached from this machine."""
        return RUN / "ssh" / "config-proxy"

    def root(self, host: str) -> Path:
        """The host's / as this machine sees it."""
        return processes.root_of(host)

    def answers(self, host: str) -> bool:
        """Whether the host's sshd answers whoever reaches it."""
        return network.sshd_answers(host)

    def crash(self, host: str) -> None:
        """Cuts a host's power. Its disk stays."""
        with locked():
            lifecycle.halt(host)

    def stop(self, host: str) -> None:
        """Shuts a host down in order. Its disk stays."""
        with locked():
            lifecycle.halt(host, graceful=True)

    @contextlib.contextmanager
    def unplugged(self, host: str) -> Iterator[None]:
        """Takes a host off the network for the block."""
        network.link(host, "down")
        try:
            yield
        finally:
            network.link(host, "up")


def unavailable() -> str | None:
    """Why there can be no testbed here, or None."""
    if os.geteuid() != 0:
        return "the testbed needs root"
    if not rootfs.built() and (lacking := rootfs.missing()):
        return f"the testbed needs {', '.join(lacking)} (.ci/system installs them)"
    return None


@contextlib.contextmanager
def borrowed() -> Iterator[Bed]:
    """The testbed for the block."""
    BASE.mkdir(parents=True, exist_ok=True)
    ours = RUN / "brought-up-by-tests"
    with open(BASE / f".use-{NAME}", "a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with locked():
            if not any(processes.state(host) for host in HOSTS):
                RUN.mkdir(parents=True, exist_ok=True)
                ours.touch()
        try:
            yield Bed()
        finally:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if ours.exists():
                    with locked():
                        lifecycle.down()
