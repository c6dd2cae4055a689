"""A command possesses nothing of the operator's session keyring, and leaves nothing in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ptb_tui.sandbox.keyring import _KEYCTL

REPOSITORY = Path(__file__).parents[2]
ADD = {250: 248, 219: 217}
COMMON = f"""
import ctypes, subprocess, sys
libc = ctypes.CDLL(None)
libc.syscall.restype = ctypes.c_long
SESSION, KEYCTL, ADD = ctypes.c_int(-3), {_KEYCTL}, {ADD.get(_KEYCTL or 0)}
def known(name): return libc.syscall(KEYCTL, 10, SESSION, b"user", name, 0) > 0
def put(name): return libc.syscall(ADD, b"user", name, b"value", 5, SESSION) > 0
"""
INSIDE = COMMON + 'print(known(b"ticket"), put(b"left"))'
OUTSIDE = f"""{COMMON}
sys.path.insert(0, {str(REPOSITORY)!r})
from ptb_tui.sandbox.base import apply_limits
if libc.syscall(KEYCTL, 1, None) < 0 or not put(b"ticket"): sys.exit(77)
inside = [sys.executable, "-c", {INSIDE!r}]
print(subprocess.run(inside, capture_output=True, text=True).stdout.split()[0])
subprocess.run(inside, preexec_fn=lambda: apply_limits({{}}))
print(known(b"ticket"))
"""


@pytest.mark.skipif(_KEYCTL is None, reason="the system calls of this kind of machine are not known")
def test_the_session_keyring_stays_outside() -> None:
    done = subprocess.run([sys.executable, "-u", "-c", OUTSIDE], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("this kernel has no keyrings for us")
    assert done.stdout.split() == ["True", "False", "True", "True"], done.stderr
