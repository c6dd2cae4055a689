"""Programs of others, run to their end within a time, with all they started. Effects."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SAID = 65_536  # bytes of an answer that are kept


def run(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float) -> tuple[int, str]:
    """Status and the end of what was printed on both streams; 124 after `timeout` seconds, 127 when it cannot start.

    Whatever the program started in its session is killed with it.
    """
    with tempfile.TemporaryFile() as out:
        try:
            process = subprocess.Popen(
                list(argv), cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return 127, f"{argv[0]}: {error.strerror}"
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = 124
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        size = out.seek(0, os.SEEK_END)
        out.seek(max(0, size - SAID))
        text = out.read().decode("utf-8", "replace")
    return status, text if status != 124 else f"{text}\n(ended after {timeout:.0f} s)"
