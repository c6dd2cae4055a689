"""How the check of the GPUs went that runs in the sandbox before the agent (H §1.8). Standard library alone.

What the agent prints comes after what the check prints, into a file the agent cannot write: an agent that ends with
the check's status after the check has passed is an agent that ended with an error.
"""

from __future__ import annotations

import os
from pathlib import Path

from ptb_tui.core.text import sanitize

STATUS = 97  # of agents/_shared/agent_start.sh
MARK = b"[check_cuda] "
HEAD = 1 << 16


def verdict(head: bytes) -> tuple[str, str]:
    """How the check went, passed or failed, and why it failed, from the beginning of a trace."""
    lines = [line.removeprefix(MARK) for line in head.split(b"\n") if line.startswith(MARK)]
    if any(line.startswith(b"passed: ") for line in lines):
        return "passed", ""
    reasons = [line.removeprefix(b"failed: ") for line in lines if line.startswith(b"failed: ")]
    return "failed", sanitize(reasons[0], limit=400, newlines=False) if reasons else "the check of the GPUs did not end"


def facts(raw: Path, gpus: object) -> dict[str, str]:
    """Facts of the harvest: empty for a run without GPUs, and where there is no trace."""
    if not isinstance(gpus, int) or gpus < 1:
        return {}
    try:
        fd = os.open(raw, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return {}
    try:
        state, why = verdict(os.pread(fd, HEAD, 0))
    except OSError:
        return {}
    finally:
        os.close(fd)
    return {"gpu_check": state, **({"gpu_why": why} if why else {})}
