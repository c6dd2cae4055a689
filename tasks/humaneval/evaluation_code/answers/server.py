"""Runs a model's answers: one fresh process for every connection, and nothing of it outlives the connection.

    python -I server.py (--fd N | SOCKET)

It prints "ready" when it accepts connections and ends when its standard input does. Connections are served one after
the other. Where it is the first process of a namespace of its own it kills everything else there after each of them.
"""

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from typing import Any, Dict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import wire  # beside this file

LIMIT_S = 60.0
_MEMORY = 4 << 30
_FILE = 256 << 20
_PROCESSES = 64
_SET_DUMPABLE = 4
_PLACES = ("/tmp", "/dev/shm")


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _prepare(folder: str) -> None:
    """Make the fresh process one of its own: session, folder, limits, no output."""
    os.setsid()
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    _limit(resource.RLIMIT_AS, _MEMORY)
    _limit(resource.RLIMIT_FSIZE, _FILE)
    _limit(resource.RLIMIT_NPROC, _PROCESSES)
    _limit(resource.RLIMIT_CORE, 0)


def _call(function: Any, message: Dict[str, Any]) -> Dict[str, Any]:
    try:
        given = wire.value_of(message.get("args")), wire.value_of(message.get("kwargs"))
        return {"type": "value", "value": wire.literal(function(*given[0], **given[1]))}
    except BaseException as error:  # whatever a model's code does is its answer
        return {"type": "raised", "kind": type(error).__name__}


def answer(connection: socket.socket) -> None:
    """Load the code, then call its function as often as asked."""
    message = wire.receive(connection)
    if message is None or message.get("type") != "load":
        return
    names: Dict[str, Any] = {"__name__": "answer"}
    try:
        exec(compile(message["code"], "answer.py", "exec"), names)
        function = names[message["entry_point"]]
    except BaseException as error:
        wire.send(connection, {"type": "load_error", "kind": type(error).__name__})
        return
    wire.send(connection, {"type": "loaded"})
    while True:
        message = wire.receive(connection)
        if message is None or message.get("type") != "call":
            return
        wire.send(connection, _call(function, message))


def _end(child: int) -> None:
    """Kill the process of an answer and, in a namespace of our own, all that it left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    alone = os.getpid() == 1
    while True:
        if alone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        try:
            os.waitpid(-1 if alone else child, 0)
        except ChildProcessError:
            return


def fresh_folder() -> str:
    """A folder for one answer; the root when an earlier one has left no room for it."""
    try:
        return tempfile.mkdtemp()
    except OSError:
        return "/"


def _empty_places() -> None:
    """Remove what an answer left, as far as that can be done; nothing it leaves may stop us."""
    for place in _PLACES:
        with contextlib.suppress(OSError):
            for entry in os.scandir(place):
                with contextlib.suppress(OSError, RecursionError):
                    if entry.is_dir(follow_symlinks=False):
                        os.chmod(entry.path, 0o700)
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        os.unlink(entry.path)


def serve_one(connection: socket.socket, listener: socket.socket, limit_s: float) -> bool:
    """One connection from beginning to end; False when standard input has ended."""
    folder = fresh_folder()
    with contextlib.suppress(OSError, wire.Broken):
        wire.send(connection, {"type": "hello"})
    child = os.fork()
    if child == 0:
        try:
            listener.close()
            _prepare(folder)
            answer(connection)
        except BaseException:  # the connection ends, which says enough
            os._exit(1)
        os._exit(0)
    ends = time.monotonic() + limit_s
    watch = select.poll()
    watch.register(connection, select.POLLRDHUP)
    watch.register(0, select.POLLHUP)
    ended = os.pidfd_open(child)
    watch.register(ended, select.POLLIN)
    going = True
    while time.monotonic() < ends:
        found = watch.poll(1000 * max(0.001, ends - time.monotonic()))
        if found:
            going = all(number != 0 for number, _ in found)
            break
    os.close(ended)
    _end(child)
    connection.close()
    if os.getpid() == 1:
        _empty_places()
    elif folder != "/":
        shutil.rmtree(folder, ignore_errors=True)
    return going


def bound(path: str) -> socket.socket:
    """A listening socket at `path`."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o666)
    listener.listen(64)
    return listener


def harden() -> None:
    """Take from answers, which have our user, the means to stop or read this process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process of a namespace then does not get it
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def serve(where: str, number: int = -1, limit_s: float = LIMIT_S) -> None:
    """Serve until standard input ends."""
    harden()
    listener = socket.socket(fileno=number) if number >= 0 else bound(where)
    print("ready", flush=True)
    while True:
        if number < 0 and not os.path.exists(where):  # an answer can remove it: it has our user
            listener.close()
            listener = bound(where)
        ready, _, _ = select.select([0, listener.fileno()], [], [], 1.0)
        if 0 in ready and not os.read(0, 1024):
            return
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            if not serve_one(connection, listener, limit_s):
                return


if __name__ == "__main__":
    if sys.argv[1] == "--fd":
        serve("", int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else LIMIT_S)
    else:
        serve(sys.argv[1])
