"""What every sandbox understands: a request goes in, a command to start comes out (design §6).

Whoever starts a `Command` must: pass `env` as the whole environment and `cwd` as the directory; close every
descriptor but 0, 1, 2 (an inherited one is a hole); call `apply_limits` between fork and exec; and start it from a
thread that lives as long as the command, because death of the starting *thread* ends a bubblewrap sandbox.
Standard library alone.
"""

from __future__ import annotations

import base64
import os
import re
import resource
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from ptb_tui.core.errors import StepError
from ptb_tui.sandbox import keyring

NETWORKS = ("full", "none", "gateway")
HOME = "/home/ben"  # home inside an isolated sandbox (H §1.3)
BEGAN = "/run/ptb/began"  # inside: what `Command.began` is outside
BEGIN = f"true >{BEGAN}; "  # in a shell inside: changes that file, which needs no room on a full disk
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # of a variable that a shell passes on
SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True, slots=True)
class Bind:
    """A host file or directory shown inside at the absolute path `target`."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One command and what it may see.

    `home` is a host directory owned by the user who starts the command, `workdir` a path below it ("task"). `env` is
    the complete environment of the command; its values may be secret and never reach an argv. `gpus` are indexes or
    UUIDs as nvidia-smi prints them, of whole devices or MIG instances. With network "gateway" `gateway_socket` names
    the companion's socket, which has a directory of its own (the directory is what goes in, so that a restarted
    companion is found at the same name). `reach` are ports of the host's loopback that the command finds at the same
    port of its own loopback, through the gateway, which must allow them. `tmp` is a host directory for /tmp; without
    one /tmp is in memory, at most `tmp_bytes`, as /dev/shm always is. `scratch` is a folder of ours on disk: it gets
    the file that tells when the command began and, over an image, what the command changes in it, and /tmp when `tmp`
    is not given. A sandbox over an image needs one; without it nothing tells a sandbox that did not start.
    `open_network` allows the host's network in place of the gateway where the machine refuses network namespaces.
    """

    argv: tuple[str, ...]
    home: Path
    workdir: str
    binds: tuple[Bind, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    network: str = "none"
    gateway_socket: Path | None = None
    tmp: Path | None = None
    tmp_bytes: int = 1 << 30
    max_processes: int = 4096
    reach: tuple[int, ...] = ()
    scratch: Path | None = None
    open_network: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. `limits` maps names of `resource` (RLIMIT_NPROC) to values; `notes` are for the record.

    `network` is what the command really has: as asked, or "open" (empty: as asked). Variables that are added to `env`
    later go through `passed`. `began` is a file that changes when the sandbox stands and the command begins: one that
    is as old as before says that the sandbox could not be started, and no output of an agent can say that.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    limits: dict[str, int]
    notes: tuple[str, ...]
    network: str = ""
    prefix: str = ""
    encoded: bool = False
    began: Path | None = None


class Sandbox(Protocol):
    """One way to run commands. `runtime` is the path of its executable, "" where there is none."""

    name: str
    isolated: bool
    runtime: str

    def home_inside(self, home: Path) -> str:
        """The path under which the command finds `home`."""
        ...

    def path(self) -> tuple[str, ...]:
        """The directories in which a command finds programs, as it sees them."""
        ...

    def python(self) -> str:
        """The Python that runs our scripts inside, as the command sees it; StepError when there is none."""
        ...

    def command(self, request: Request) -> Command:
        """The command to start; StepError(cause="sandbox") when the request cannot be met."""
        ...

    def probe(self) -> tuple[bool, str]:
        """Whether commands can be started here by this user, and the reason or the version."""
        ...


def apply_limits(limits: Mapping[str, int]) -> None:
    """Set the limits of this process, never above what the hard limits allow, and take the operator's session keyring
    from it. To be called after fork.
    """
    keyring.leave_session()
    for name, value in limits.items():
        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (bounded, bounded))


def passed(env: Mapping[str, str], prefix: str, encoded: bool) -> dict[str, str]:
    """Variables for the inside as the runtime outside wants to be given them: `Command.prefix` and `encoded`."""
    if encoded:
        env = {name: base64.b64encode(os.fsencode(value)).decode("ascii") for name, value in env.items()}
    return {prefix + name: value for name, value in env.items()}


def stamp(path: Path) -> int:
    """When a file last changed in any way, in nanoseconds; no program but the kernel sets this. 0 when it is absent."""
    try:
        return path.lstat().st_ctime_ns
    except OSError:
        return 0


def began_file(scratch: Path) -> Path:
    """The file below a sandbox's scratch that the command changes when it begins; both are made if needed."""
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder(scratch, "the sandbox's scratch")
    began = scratch / "began"
    began.touch(mode=0o600)
    return began


def refuse(message: str, *, hint: str = "") -> StepError:
    """The one error of this room: the site cannot give what a step asks."""
    return StepError(message, cause="sandbox", hint=hint)


def check(request: Request) -> None:
    """Refuse what no sandbox can do; StepError(cause="sandbox")."""
    if not request.argv or not request.argv[0]:
        raise refuse("there is no command to start")
    if any("\0" in word for word in request.argv):
        raise refuse("a word of the command holds a NUL byte")
    for name, value in request.env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise refuse(f"the environment variable {name!r} cannot be passed on")
    if request.network not in NETWORKS:
        raise refuse(f"network {request.network!r} is none of {', '.join(NETWORKS)}")
    if request.max_processes < 1 or request.tmp_bytes < 4096:
        raise refuse("a sandbox needs at least one process and 4096 bytes of /tmp")
    if not all(0 < port < 65536 for port in request.reach):
        raise refuse("a port to reach is not between 1 and 65535")
    work = PurePosixPath(request.workdir)
    if work.is_absolute() or ".." in work.parts:
        raise refuse(f"the working directory {request.workdir!r} is not below the home")
    folder(request.home, "the home")
    if not os.path.lexists(request.home / work):
        raise refuse(f"the working directory {request.workdir!r} does not exist in {request.home}")


def folder(path: Path, what: str) -> None:
    """Refuse a path that is not absolute or not a directory itself (a link is none)."""
    try:
        fits = path.is_absolute() and stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        fits = False
    if not fits:
        raise refuse(f"{what} {path} is not a directory with an absolute path")
