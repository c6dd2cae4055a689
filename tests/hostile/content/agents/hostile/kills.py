"""Kill, stop and trace everything there is, the first process and one's own parents included."""

import contextlib
import ctypes
import os
import signal

os.write(1, b"did kills\n")
libc = ctypes.CDLL(None, use_errno=True)
for name in filter(str.isdigit, os.listdir("/proc")):
    if int(name) != os.getpid():
        traced = libc.ptrace(16, int(name), 0, 0)  # PTRACE_ATTACH
        os.write(1, f"traced {name}\n".encode() if traced == 0 and int(name) == 1 else b"")
with contextlib.suppress(OSError):
    os.kill(1, signal.SIGKILL)
with contextlib.suppress(OSError):
    os.kill(1, signal.SIGSTOP)
with contextlib.suppress(OSError):
    os.killpg(0, signal.SIGCONT)
os.kill(-1, signal.SIGKILL)
os.kill(os.getppid(), signal.SIGKILL)
