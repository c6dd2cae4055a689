"""Keyrings of the kernel: what a process inherits besides its descriptors, and no namespace takes away.

A login often keeps tickets and passwords in its session keyring. Whatever is started below possesses that keyring:
it could read them, and leave keys there for the next run. Standard library alone.
"""

from __future__ import annotations

import ctypes
import platform

_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(platform.machine())
_JOIN_SESSION_KEYRING = 1
_libc = ctypes.CDLL(None)  # here, because nothing may be loaded between fork and exec


def leave_session() -> None:
    """Give this process an empty session keyring of its own. Does nothing where the kernel has no keyrings."""
    if _KEYCTL is not None:
        _libc.syscall(_KEYCTL, _JOIN_SESSION_KEYRING, None)
