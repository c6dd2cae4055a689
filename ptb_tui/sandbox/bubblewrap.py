"""Isolation by bubblewrap: own user, process, network, IPC and host-name namespaces over a read-only view of the host.

Inside, the user is always ben (1000) and the host ptb, whoever and wherever the operator is: CLIs that refuse to work
as root work, and nobody's login name shows. The real user stays the operator's: files in the home are the operator's
outside. Killing the started process kills everything in the sandbox, whatever it did to get away.

Limits. RLIMIT_NPROC counts per sandbox on Linux ≥ 5.14 and per user of the machine before; it does not bind when root
starts the sandbox. SIGTERM to the started process is not passed on: it ends the whole sandbox at once.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ptb_tui.sandbox import devices, system
from ptb_tui.sandbox.base import (
    BEGAN,
    BEGIN,
    HOME,
    NAME,
    SYSTEM_PATH,
    Command,
    Request,
    began_file,
    check,
    folder,
    refuse,
)
from ptb_tui.sandbox.forwarding import (
    FORWARDER,
    FORWARDER_INSIDE,
    GATEWAY_INSIDE,
    forwarded,
    proxy_words,
    socket_folder,
)
from ptb_tui.sandbox.forwarding import PORT as PORT
from ptb_tui.sandbox.mounts import bound
from ptb_tui.sandbox.userns import advice

_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--uid", "1000", "--gid", "1000", "--hostname", "ptb"),
)


@functools.cache
def _options(executable: str) -> str:
    """The help text of this bubblewrap: older ones (before 0.7) cannot bound a tmpfs."""
    try:
        done = subprocess.run([executable, "--help"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


class Bubblewrap:
    """Runs commands in bubblewrap. `prefixes` are directories shown read-only at their own paths."""

    name = "bubblewrap"
    isolated = True

    def __init__(self, executable: str | None = None, prefixes: Sequence[Path] | None = None) -> None:
        search = os.pathsep.join((os.environ.get("PATH", ""), "/usr/bin", "/usr/local/bin"))
        self.runtime = executable if executable is not None else shutil.which("bwrap", path=search) or ""
        self._prefixes = system.interpreter_prefixes() if prefixes is None else tuple(prefixes)

    def home_inside(self, home: Path) -> str:
        """Always /home/ben (H §1.3)."""
        return HOME

    def path(self) -> tuple[str, ...]:
        """The interpreter that runs us is visible inside, and the programs of the system."""
        return (os.path.dirname(sys.executable), *SYSTEM_PATH)

    def python(self) -> str:
        """The interpreter that runs us."""
        return sys.executable

    def command(self, request: Request) -> Command:
        """The bubblewrap command; only PWD is added to the environment, and the proxy words with the gateway.

        With a scratch a shell inside tells that the command begins, and becomes it. StepError(cause="sandbox") when a
        directory is absent, a bind goes through a link, a GPU does not exist, or a variable cannot pass that shell.
        """
        if not self.runtime:
            raise refuse("bubblewrap is not installed", hint="install the package `bubblewrap`")
        check(request)
        notes: list[str] = []
        nodes, exact = devices.nodes(request.gpus)
        if not exact:
            notes.append("every GPU of this machine can be opened; only CUDA_VISIBLE_DEVICES tells which to use")
        if os.geteuid() == 0:
            notes.append("started by root: the number of processes has no limit")
        words = [self.runtime, *_NAMESPACES, *self._no_nesting(notes)]
        if request.network != "full":
            words.append("--unshare-net")
        words += system.programs()
        words += system.settings(open_network=request.network == "full", gpus=bool(nodes))
        words += [*system.kernel(), "--dev", "/dev", *self._memory("/dev/shm", request.tmp_bytes, notes)]
        for node in nodes:
            words += ["--dev-bind", str(node), str(node)]
        words += ["--remount-ro", "/dev"]
        if request.tmp is None:
            words += self._memory("/tmp", request.tmp_bytes, notes)
        else:
            folder(request.tmp, "the directory for /tmp")
            words += ["--bind", str(request.tmp), "/tmp"]
        words += ["--dir", "/var", "--symlink", "../tmp", "/var/tmp", "--dir", "/run"]
        words += ["--bind", str(request.home), HOME]
        words += system.prefixes(self._prefixes, (*system.private_places(), request.home))
        words += bound(request)
        inner, env = request.argv, dict(request.env)
        if request.network == "gateway":
            words += _gateway_binds(request)
            inner, env = self._forwarded(request), env | proxy_words(PORT)
        began = began_file(request.scratch) if request.scratch is not None else None
        if began is not None:
            words += ["--dir", "/run/ptb", "--bind", str(began), BEGAN]
            inner = ("/bin/sh", "-c", _script(env), "ptb", *inner)
        words += ["--remount-ro", "/", "--chdir", f"{HOME}/{request.workdir}", "--", *inner]
        limits = {"RLIMIT_NPROC": request.max_processes}
        return Command(tuple(words), env, Path("/"), limits, tuple(notes), began=began)

    def probe(self) -> tuple[bool, str]:
        """Starts one command with all the namespaces; when that fails, says why and what would help."""
        if not self.runtime:
            return False, "bubblewrap is not installed (package `bubblewrap`)"
        words = [
            self.runtime,
            *_NAMESPACES,
            *self._no_nesting([]),
            "--unshare-net",
            *system.programs(),
            *system.kernel(),
            "--dev",
            "/dev",
        ]
        try:
            done = subprocess.run(
                [*words, "--", "/usr/bin/env", "-i", "true"], capture_output=True, cwd="/", timeout=30, check=False
            )
            said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        except (OSError, subprocess.TimeoutExpired) as error:
            return False, f"{self.runtime} cannot be started: {error}"
        if done.returncode == 0:
            return True, self.runtime
        return False, f"bubblewrap cannot make a sandbox: {said or f'exit {done.returncode}'}{advice(said)}"

    def _no_nesting(self, notes: list[str]) -> list[str]:
        """In a user namespace of its own a command could mount its cgroup, and by it kill or freeze neighbours."""
        if "--disable-userns" in _options(self.runtime):
            return ["--disable-userns"]
        notes.append("commands can make namespaces of their own: this bubblewrap is older than 0.8")
        return []

    def _memory(self, target: str, size: int, notes: list[str]) -> list[str]:
        options = _options(self.runtime)
        words = ["--perms", "1777"] if "--perms" in options else []
        if "--size" in options:
            words += ["--size", str(size)]
        else:
            notes.append(f"{target} has no limit: this bubblewrap is older than 0.7")
        return [*words, "--tmpfs", target]

    def _forwarded(self, request: Request) -> tuple[str, ...]:
        shown = (*self._prefixes, Path("/usr"))
        pythons = [name for name in (sys.executable, "/usr/bin/python3") if os.path.exists(name)]
        visible = [name for name in pythons if any(place in Path(name).parents for place in shown)]
        if not visible:
            raise refuse("no Python is visible inside the sandbox to run the gateway's forwarder")
        return forwarded(visible[0], request)


def _script(env: Mapping[str, str]) -> str:
    """What /bin/sh does inside before it becomes the command: says that it began, takes away what it added itself."""
    for name in env:
        if not NAME.fullmatch(name):
            raise refuse(f"the environment variable {name!r} cannot be passed through a shell")
    own = [name for name in ("OLDPWD", "SHLVL") if name not in env]
    return f'{BEGIN}unset {" ".join(own)}; exec "$@"' if own else f'{BEGIN}exec "$@"'


def _gateway_binds(request: Request) -> list[str]:
    source = socket_folder(request)
    words = ["--dir", "/run/ptb", "--ro-bind", str(FORWARDER), FORWARDER_INSIDE]
    return [*words, "--ro-bind", str(source), GATEWAY_INSIDE]
