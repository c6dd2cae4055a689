"""Starts and ends the answer server: in a jail of namespaces, in a container, or one that the organiser has started.

As a program it serves at a given socket until its standard input ends, in a jail or in a container of an image:

    python -I box.py SOCKET [IMAGE]
"""

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from typing import List, Mapping, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
READY_S = 120.0
LIMIT_S = 60.0
_SOCKET = "answers.sock"


class BoxFailed(Exception):
    """The answer server cannot be had."""


def apptainer_command(runtime: str, image: str, folder: str, name: str = _SOCKET) -> List[str]:
    """The command that serves in a container of its own: no home, no environment, no network, nothing to be written
    but its /tmp in memory; only the server's files and the socket's folder are there, and the server is the first
    process."""
    return [
        *(runtime, "exec", "--containall", "--cleanenv", "--no-home", "--pid", "--no-init"),
        *("--net", "--network", "none", "--no-privs"),
        *("--bind", "{}:/answers:ro".format(HERE), "--bind", "{}:/socket".format(folder)),
        *(image, "python3", "-I", "-B", "/answers/server.py", "/socket/" + name),
    ]


class Box:
    """A running answer server; `path` is its socket."""

    def __init__(self, path: str, process: "Optional[subprocess.Popen[bytes]]" = None, folder: str = "") -> None:
        self.path = path
        self._process = process
        self._folder = folder

    def close(self) -> None:
        """End the server and all it runs."""
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _started(command: List[str], path: str, folder: str, listener: Optional[socket.socket]) -> Box:
    with open(os.path.join(folder, "log"), "w+b") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=[listener.fileno()] if listener else [],
            start_new_session=True,
        )
        box = Box(path, process, folder)
        assert process.stdout is not None
        ends = time.monotonic() + READY_S
        said = b""
        while b"ready" not in said and time.monotonic() < ends:
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, ends - time.monotonic()))
            part = os.read(process.stdout.fileno(), 4096) if ready else b""
            if not part:
                break
            said += part
        if b"ready" not in said:
            process.kill()
            log.seek(0)
            words = log.read(4096).decode("utf-8", "replace").strip()
            box.close()
            raise BoxFailed(words or "the answer server was not ready within {:.0f} s".format(READY_S))
    return box


def start_jail(path: str = "", limit_s: float = LIMIT_S) -> Box:
    """A server in a jail of namespaces, at `path` or a place of its own. BoxFailed."""
    folder = tempfile.mkdtemp(prefix="answers-")
    path = path or os.path.join(folder, _SOCKET)
    os.mkdir(os.path.join(folder, "root"))
    places = [place for place in sys.path if os.path.isdir(os.path.join(place, "numpy"))]
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(path)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise BoxFailed("no socket at {}: {}".format(path, error)) from error
        listener.listen(64)
        script = os.path.join(HERE, "jail.py")
        words = [str(listener.fileno()), str(limit_s), os.path.join(folder, "root"), *places]
        return _started([sys.executable, "-I", "-B", script, *words], path, folder, listener)


def start_container(image: str, path: str = "") -> Box:
    """A server in a container of Apptainer, at `path` or a place of its own. BoxFailed."""
    runtime = shutil.which("apptainer") or shutil.which("singularity")
    if runtime is None:
        raise BoxFailed("answers are to run in the image {}, but there is no apptainer".format(image))
    folder = tempfile.mkdtemp(prefix="answers-")
    inside, name = os.path.split(path) if path else (os.path.join(folder, "socket"), _SOCKET)
    os.makedirs(inside, exist_ok=True)
    command = apptainer_command(runtime, image, os.path.abspath(inside), name)
    return _started(command, os.path.join(inside, name), folder, None)


def open_box(environ: Mapping[str, str]) -> Box:
    """The server that PTB_ANSWER_SOCKET names, else one in the image PTB_ANSWER_IMAGE, else in a jail. BoxFailed."""
    if environ.get("PTB_ANSWER_SOCKET"):
        return Box(environ["PTB_ANSWER_SOCKET"])
    if environ.get("PTB_ANSWER_IMAGE"):
        return start_container(environ["PTB_ANSWER_IMAGE"])
    return start_jail()


if __name__ == "__main__":
    try:
        served = start_container(sys.argv[2], sys.argv[1]) if sys.argv[2:] else start_jail(sys.argv[1])
    except BoxFailed as problem:
        sys.exit("answer sandbox: {}".format(problem))
    print("ready", flush=True)
    while sys.stdin.buffer.read(4096):
        pass
    served.close()
