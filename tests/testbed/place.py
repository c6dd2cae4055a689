"""Where a testbed keeps its state, and the few things that every module of it does: run a command, wait, lock.

`PTB_TESTBED_DIR` names the folder (default /var/tmp/ptb-testbed), `PTB_TESTBED_NAME` one of several testbeds in it
(default `ptb`): they share what was built, and have hosts, disks and networks of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = Path(__file__).resolve().parent / "files"
BASE = Path(os.environ.get("PTB_TESTBED_DIR", "/var/tmp/ptb-testbed"))
NAME = os.environ.get("PTB_TESTBED_NAME", "ptb")
RUN = BASE / f"run-{NAME}"
ROOTFS = BASE / "rootfs"
LAYERS = BASE / "layers"
IMAGES = BASE / "images"
IMAGE_ROOT = BASE / "image-root"

T = TypeVar("T")


class Problem(Exception):
    """What went wrong, in words for the person at the terminal."""


def say(text: str) -> None:
    """One line of progress on standard error."""
    print(f"testbed: {text}", file=sys.stderr, flush=True)


def sh(*words: str | Path, timeout: float = 60, cwd: Path | None = None) -> str:
    """Output of a command, standard error included. Raises Problem with the end of it when the command fails."""
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        cwd=cwd,
        check=False,
    )
    if done.returncode:
        raise Problem(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout


def wait_for(what: str, check: Callable[[], T | None], seconds: float, every: float = 0.03) -> T:
    """Asks until the answer is true; Problem names `what` when that takes longer than `seconds`."""
    end = time.monotonic() + seconds
    while True:
        if answer := check():
            return answer
        if time.monotonic() > end:
            raise Problem(f"{what}: not within {seconds:g} s")
        time.sleep(every)


@contextlib.contextmanager
def locked(name: str = NAME) -> Iterator[None]:
    """Holds the lock of a testbed (or, by the name `build`, of what all share) for the block."""
    BASE.mkdir(parents=True, exist_ok=True)
    with open(BASE / f".lock-{name}", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def put(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Writes a file with these permissions; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def remove_tree(path: Path) -> None:
    """Deletes a tree, and refuses to cross into a mounted file system."""
    if path.exists():
        sh("rm", "-rf", "--one-file-system", path, timeout=300)
