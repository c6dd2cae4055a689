"""A vLLM server of our own, and sequential generation through it (E §1.5.6)."""

import contextlib
import importlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

START_S = 600.0
REQUEST_S = 300.0
TRIES = 3
_STOP_S = 20.0
_SECRETS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


def free_port() -> int:
    """A port between 20000 and 65000 that nobody listens on at 127.0.0.1."""
    while True:
        port = random.SystemRandom().randrange(20_000, 65_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def server_environment(environ: Mapping[str, str]) -> Dict[str, str]:
    """The environment without keys: what a checkpoint makes the server do must not find any."""
    return {
        name: value for name, value in environ.items() if name == "VLLM_API_KEY" or not name.upper().endswith(_SECRETS)
    }


def _wait(process: "subprocess.Popen[bytes]", port: int, limit_s: float) -> None:
    ends = time.monotonic() + limit_s
    while time.monotonic() < ends:
        if process.poll() is not None:
            raise RuntimeError("the vLLM server exited with {}".format(process.returncode))
        try:
            with urllib.request.urlopen("http://127.0.0.1:{}/health".format(port), timeout=5) as reply:
                if reply.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise RuntimeError("the vLLM server did not answer within {:.0f} s".format(limit_s))


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End the server, which ends its workers; then whatever of them is left."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def serving(model: str, template: Path, start_s: float = START_S) -> Iterator[Any]:
    """A client of the `openai` package for a server of the model, which ends with the block. RuntimeError."""
    openai = importlib.import_module("openai")
    key = os.environ.get("VLLM_API_KEY") or "inspectai"
    environ = server_environment({**os.environ, "VLLM_API_KEY": key})
    port = free_port()
    command = ["vllm", "serve", model, "--host", "127.0.0.1", "--port", str(port), "--chat-template", str(template)]
    process = subprocess.Popen(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True
    )
    try:
        _wait(process, port, start_s)
        base = "http://127.0.0.1:{}/v1".format(port)
        with openai.OpenAI(api_key=key, base_url=base, timeout=REQUEST_S, max_retries=0) as client:
            yield client
    finally:
        _stop(process)


def generate(
    client: Any,
    model: str,
    messages: Sequence[Mapping[str, str]],
    max_tokens: int,
    seed: Optional[int],
    wait: Callable[[float], None] = time.sleep,
) -> str:
    """One answer; three tries with waits of 2 and 4 seconds. RuntimeError after the third."""
    openai = importlib.import_module("openai")
    more: Dict[str, Any] = {} if seed is None else {"seed": seed}
    for number in range(1, TRIES + 1):
        try:
            reply = client.chat.completions.create(model=model, messages=list(messages), max_tokens=max_tokens, **more)
            text = reply.choices[0].message.content or ""
            return str(text).encode("utf-8", "replace").decode("utf-8")
        except openai.OpenAIError as error:
            if number == TRIES:
                raise RuntimeError("no answer after {} tries: {}".format(TRIES, error)) from error
            wait(2.0**number)
    raise AssertionError("not reached")


def read_answers(rows: List[Dict[str, Any]]) -> Dict[str, str]:
    """Stored answers by the item's id."""
    return {str(row["id"]): str(row["answer"]) for row in rows}
