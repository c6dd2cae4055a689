"""Scripts as processes of their own, forked from one that has imported what they import: seconds less for each.

`python` in the folder of `Scripts` is a client of that process: it hands over its arguments, folder, environment and
streams, and ends as the forked script does. So it stands wherever a Python interpreter is named.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.polling import until

# What an evaluation imports, some of it with the first answer only. A name that a later version lacks costs time alone.
_HEAVY = (
    *("inspect_ai", "torch", "transformers.models.qwen3.modeling_qwen3", "openai", "fastapi", "uvicorn", "rich.live"),
    *("inspect_ai.model._assistant_internal", "inspect_ai.model._openai", "inspect_ai.model._openai_responses"),
    *("inspect_ai.model._providers.hf", "inspect_ai.model._providers.none", "inspect_ai.hooks._startup"),
    *("inspect_ai.agent._acp.server", "inspect_ai.agent._acp.transport_live", "inspect_ai._control.current_server"),
)
_CLIENT = """#!{python} -IS
import json, os, socket, sys
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as link:
    link.connect({address!r})
    socket.send_fds(link, [len(request).to_bytes(4, "big")], [0, 1, 2])
    link.sendall(request)
    code = link.recv(4)
os._exit(int.from_bytes(code, "big") if len(code) == 4 else 70)
"""


@dataclass(frozen=True, slots=True)
class Scripts:
    """Runs scripts; `python` is an interpreter for whoever wants to run them himself."""

    python: Path

    def run(self, script: Path, *arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a script in its folder with exactly this environment."""
        command = [str(self.python), str(script), *arguments]
        return subprocess.run(command, cwd=script.parent, env=env, capture_output=True, text=True, timeout=300)


@contextmanager
def forking(folder: Path) -> Iterator[Scripts]:
    """The process that scripts are forked from; `folder` is for its socket and its client."""
    address = folder / "socket"
    env = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "LANG": "C.UTF-8"}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    process = subprocess.Popen([sys.executable, "-m", "tests.tasks.forked", str(address)], env=env)
    try:
        until(lambda: address.exists() or process.poll() is not None, "the process of the scripts", 240)
        assert process.poll() is None
        client = folder / "python"
        client.write_text(_CLIENT.format(python=os.path.realpath(sys.executable), address=str(address)))
        client.chmod(0o755)
        yield Scripts(client)
    finally:
        process.terminate()
        process.wait()


def _exactly(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := link.recv(count - len(data))):
        data += piece
    return data


def _become(argv: list[str], cwd: str, env: dict[str, str], fds: list[int]) -> None:
    """Run the script as the main program of this process, which ends as an interpreter does, but for the second that
    taking PyTorch apart needs."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv[:], sys.path[0] = argv, os.path.dirname(os.path.abspath(argv[0]))
    code: object = 0
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _serve(address: str) -> None:
    for name in _HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with contextlib.suppress(ImportError, AttributeError):  # a second's worth of YAML
        importlib.import_module("inspect_ai.model._model_info")._get_model_info_db()
    gc.freeze()  # what children share is not touched by their collections
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + ".new")
    listener.listen(8)
    os.rename(address + ".new", address)
    while True:
        link, _ = listener.accept()
        head, fds, _, _ = socket.recv_fds(link, 4, 3)
        request = json.loads(_exactly(link, int.from_bytes(head, "big")))
        child = os.fork()
        if not child:
            listener.close()
            link.close()
            os.setsid()
            argv, cwd, env = request
            return _become(argv, cwd, env, list(fds))
        for fd in fds:
            os.close(fd)
        _answer(link, child)


def _answer(link: socket.socket, child: int) -> None:
    """Tell the client how the script ended; a client that is killed takes its script with it."""
    gone = threading.Event()

    def watch() -> None:
        with contextlib.suppress(OSError):
            link.recv(1)
        if not gone.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status = os.waitpid(child, 0)
    gone.set()
    with contextlib.suppress(OSError):
        link.sendall((os.waitstatus_to_exitcode(status) % 256).to_bytes(4, "big"))
        link.shutdown(socket.SHUT_RDWR)
    watcher.join()
    link.close()


if __name__ == "__main__":
    _serve(sys.argv[1])
