"""Waiting for something in a test: by looking, never by sleeping for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], what: str = "it", seconds: float = 60.0) -> Any:
    """Look until the condition holds, and return what it returned; an AssertionError names what did not happen."""
    limit = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < limit, f"not in {seconds:.0f} s: {what}"
        time.sleep(0.02)
    return found
