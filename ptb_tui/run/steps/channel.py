"""The way of a result from an evaluation script to its driver: the script's standard input, an unlinked file of ours.

It is the one descriptor that every runtime hands on. Our scripts take it out of reach of what they start
(`tasks/shared/ptb_metrics.py`); scripts that know nothing of it find it as the file `RESULT`.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ptb_tui.evaluation.seeds import problem_of

VARIABLE, DESCRIPTOR = "PTB_RESULT_FD", "0"
RESULT = "/proc/self/fd/0"
LIMIT = 1 << 20


def opened() -> int:
    """A new channel; whoever asked closes it."""
    return os.memfd_create("result")


def read(channel: int) -> bytes:
    """What was written to it, some bytes more than `LIMIT` at most."""
    found = b""
    while len(found) <= LIMIT and (part := os.pread(channel, 1 << 16, len(found))):
        found += part
    return found


def metrics_of(said: bytes) -> tuple[dict[str, Any], str]:
    """The metrics that a script gave, or why they are no use. Total."""
    if not said:
        return {}, "it ended well but gave no result through its channel"
    if len(said) > LIMIT:
        return {}, f"its result has more than {LIMIT} bytes"
    try:
        metrics = json.loads(said)
    except (ValueError, RecursionError):
        return {}, "its result is not JSON"
    problem = problem_of(metrics)
    return ({}, problem) if problem else (metrics, "")
