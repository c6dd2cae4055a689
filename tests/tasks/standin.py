"""Where scripts find a `vllm` that is none, and one server of a model for many of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.polling import until
from tests.tasks.loading import TASKS

_STANDIN = Path(__file__).with_name("vllm_standin.py")


def program(folder: Path, backend: str = "") -> Path:
    """Put a `vllm` that serves without vLLM in a folder, for a PATH; returns the folder. It passes what it is asked on
    to `backend`, if there is one."""
    folder.mkdir(exist_ok=True)
    known = f"STANDIN_BACKEND={backend} " if backend else ""
    (folder / "vllm").write_text(f'#!/bin/sh\n{known}exec "{sys.executable}" "{_STANDIN}" "$@"\n')
    (folder / "vllm").chmod(0o755)
    return folder


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


@contextmanager
def backend(model: Path) -> Iterator[str]:
    """A stand-in that has loaded the model; its address is for `program`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    template = TASKS / "templates" / "qwen3.jinja"
    command = [sys.executable, str(_STANDIN), "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
    env = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VLLM_API_KEY": "inspectai"}
    process = subprocess.Popen([*command, "--chat-template", str(template)], env=env, stdin=subprocess.DEVNULL)
    try:
        until(lambda: _answers(f"http://127.0.0.1:{port}/health") or process.poll() is not None, "the server", 120)
        assert process.poll() is None
        yield f"http://127.0.0.1:{port}/v1/chat/completions"
    finally:
        process.terminate()
        process.wait()
