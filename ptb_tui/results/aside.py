"""Work in a process forked for it, while this one goes on: reading many runs takes half the time on two cores.

Only where this process has no other thread: a lock that one held would stay locked in the fork. The work must not
print, and must change nothing but its own memory.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable


def possible() -> bool:
    """Whether a fork is safe here and has a core of its own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return threading.active_count() == 1 and cores > 1


def aside(work: Callable[[], bytes]) -> Callable[[], bytes]:
    """Begin the work. The function returned waits for its end and gives what it returned, or nothing if it failed.

    It must be called once, or the process stays as a zombie. OSError where no process or file can be had.
    """
    with tempfile.TemporaryFile() as file:
        result = os.dup(file.fileno())
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            data = memoryview(work())
            while data:
                data = data[os.write(result, data) :]
            code = 0
        finally:
            os._exit(code)  # without what the parent would do at its own end

    def wait() -> bytes:
        try:
            _, status = os.waitpid(pid, 0)
            with open(result, "rb") as file:
                file.seek(0)
                return file.read() if status == 0 else b""
        except ChildProcessError:  # somebody else waited for it
            return b""

    return wait
