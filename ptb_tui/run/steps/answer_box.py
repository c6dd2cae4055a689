"""The answer server of HumanEval beside an attempt: what a model wrote runs in it, never with the tests (E §1.7.3).

Namespaces cannot be nested in a sandbox, so the server stands outside of it, and the attempt sees its socket alone.
Over an image it has a container of its own; elsewhere it makes its namespaces itself (`answers/box.py` of the task).
It ends when its standard input does: with the phase, and with us when we are killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ptb_tui.content.tasks import Task
from ptb_tui.core import clock, files
from ptb_tui.core.errors import StepError
from ptb_tui.run import processes
from ptb_tui.sandbox import base, runtime
from ptb_tui.sandbox.apptainer import Apptainer
from ptb_tui.sandbox.base import Bind, Sandbox
from ptb_tui.sandbox.userns import advice

SERVER = Path("evaluation_code", "answers")  # below the task's folder
TARGET = "/answers"  # where the socket's folder is inside an attempt
READY_S = 120.0
END_S = 20.0
_SOCKET = "answers.sock"
_SAID = 1 << 16
_LONGEST = 100  # bytes; the kernel takes 107


@dataclass(frozen=True, slots=True)
class Extra:
    """What a helper beside a phase adds to it. `pids` names the helper's processes, which live as long as the phase."""

    env: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[Bind, ...] = ()
    pids: Callable[[], tuple[int, ...]] = tuple


def wants_box(task: Task) -> bool:
    """Whether the final evaluation of this task runs answers in a sandbox of their own."""
    return (task.folder / SERVER / "box.py").is_file()


@contextlib.contextmanager
def beside(task_folder: Path, place: Path, sandbox: Sandbox) -> Iterator[Extra]:
    """A running answer server for one attempt in `sandbox`, its files in `place`. StepError(cause="sandbox")."""
    code, folder = task_folder / SERVER, place / "socket"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Without a sandbox the attempt finds the socket at its own path, which must not be too long for one.
    short = sandbox.isolated or len(os.fsencode(folder / _SOCKET)) <= _LONGEST
    if not short:
        folder = Path(tempfile.mkdtemp(prefix="ptb-answers-"))
    try:
        if isinstance(sandbox, Apptainer) and sandbox.python() != sys.executable:
            start = _container(code, place, folder, sandbox)
        else:
            start = _jail(code, place, folder)
        with start as pid:
            inside = f"{TARGET}/{_SOCKET}" if sandbox.isolated else str(folder / _SOCKET)
            yield Extra(
                env={"PTB_ANSWER_SOCKET": inside},
                binds=(Bind(folder, TARGET),) if sandbox.isolated else (),
                pids=lambda: (pid, *processes.descendants(pid)),
            )
    finally:
        if not short:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _jail(code: Path, place: Path, folder: Path) -> Iterator[int]:
    """The server in namespaces of its own. It binds the socket by its bare name: a whole path can be too long."""
    argv = (sys.executable, "-I", "-B", str(code / "box.py"), _SOCKET)
    with _serving(argv, runtime.outer_environment() | {"TMPDIR": str(place)}, folder, place, {}) as pid:
        yield pid


@contextlib.contextmanager
def _container(code: Path, place: Path, folder: Path, sandbox: Apptainer) -> Iterator[int]:
    """The server as the first process of a container in which nothing but its /tmp can be written, and that is in
    memory: what one answer leaves is not there for the next."""
    argv = (sys.executable, "-I", "-B", str(code / "box.py"), str(folder / _SOCKET), str(sandbox.place()))
    env = runtime.outer_environment() | {"TMPDIR": str(place)}
    env["PATH"] = f"{Path(sandbox.runtime).parent}:{env['PATH']}"
    with _serving(argv, env, folder, place, {}) as pid:
        yield pid


@contextlib.contextmanager
def _serving(
    argv: tuple[str, ...] | list[str], env: dict[str, str], cwd: Path, place: Path, limits: dict[str, int]
) -> Iterator[int]:
    log = place / "server.log"
    with open(log, "wb") as errors:
        try:
            child = subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                preexec_fn=lambda: base.apply_limits(limits),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise _refused(str(error)) from error
    assert child.stdin is not None and child.stdout is not None
    try:
        if not _ready(child.stdout):
            said = (files.read_bytes(log, _SAID) or b"").decode("utf-8", "replace")
            raise _refused(" ".join(said.split())[-300:] or f"it was not ready within {READY_S:.0f} s")
        yield child.pid
    finally:
        _end(child)


def _refused(said: str) -> StepError:
    words = said.removeprefix("answer sandbox: ")
    return StepError(
        f"the sandbox for answers did not start: {words}{advice(words)}",
        cause="sandbox",
        hint="HumanEval runs what the model wrote apart from its tests: this takes user namespaces, root or Apptainer",
    )


def _ready(said: IO[bytes]) -> bool:
    """Whether the server says so in time."""
    ends, heard = clock.monotonic() + READY_S, b""
    while b"ready" not in heard and (left := ends - clock.monotonic()) > 0:
        if not select.select([said], [], [], left)[0] or not (part := os.read(said.fileno(), 4096)):
            break
        heard += part
    return b"ready" in heard


def _end(child: subprocess.Popen[bytes]) -> None:
    """Close its input, on which it ends with all that it runs; kill it, by its id, when it does not."""
    assert child.stdin is not None and child.stdout is not None
    with contextlib.suppress(OSError):
        child.stdin.close()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        for pid in (*processes.descendants(child.pid), child.pid):
            processes.send(pid, 9)
        child.wait()
    child.stdout.close()
