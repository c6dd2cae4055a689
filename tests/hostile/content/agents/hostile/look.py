"""Look for what was not given: keys in environments, files, keyrings, descriptors; places of the host; other processes.

Values are printed backwards, so that what redacts the trace does not hide a find from the test.
"""

import contextlib
import ctypes
import json
import os
import platform
import re
import stat
import sys

from place import BASE

WANTED = re.compile(rb"canary-[0-9A-Za-z]{15}0")
found: dict[str, list[str]] = {}
opened: list[str] = []
written: list[str] = []


def search(where: str, data: bytes) -> None:
    for value in set(WANTED.findall(data)):
        found.setdefault(value.decode()[::-1], []).append(where)


def read(path: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        if stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "rb") as file:
                search(path, file.read(1 << 20))


search("environment", repr(dict(os.environ)).encode())
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "maps", "mountinfo"):
        read(f"/proc/{pid}/{name}")
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            read(f"/proc/{pid}/fd/{name}")
    for way in ("root", "cwd"):
        for target in (f"{BASE}/content/.env", f"{BASE}/outside/secret.txt"):
            read(f"/proc/{pid}/{way}{target}")
skipped = ("/proc", "/sys", "/usr", "/dev", "/opt/runtime", sys.prefix, sys.base_prefix)
for folder, below, names in os.walk("/"):
    below[:] = [name for name in below if not os.path.join(folder, name).startswith(skipped)]
    for name in names:
        read(os.path.join(folder, name))
scratch = os.environ.get("PTB_STEP", "/nonexistent")
places = [BASE, "outside", "results", "results/_ptb", "content/.env", "home/.codex/auth.json", "credentials", "scratch"]
for place in (*(os.path.join(BASE, name) for name in places), scratch, f"{scratch}/raw", f"{scratch}/egress.jsonl",
              f"{scratch}/launch.json", "/var/tmp/ptb-0", "/var/tmp/ptb-65534", "/var/tmp/ptb-slots"):  # fmt: skip
    with contextlib.suppress(OSError):
        os.stat(place)
        opened.append(place)
    for target in (place, os.path.join(place, "planted")):
        with contextlib.suppress(OSError):
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
            written.append(target)
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/1/mem",
             "/sys/fs/cgroup/cgroup.procs", "/etc/passwd", "/usr/bin/python3", "/run/ptb/forwarder.py"):  # fmt: skip
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY))
        written.append(path)

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(platform.machine(), (-1, -1))
for ring in (-3, -4, -5):  # session, user, the user's session
    key = libc.syscall(keyctl, 10, ctypes.c_int(ring), b"user", b"ptb-canary", 0)
    buffer = ctypes.create_string_buffer(256)
    if key > 0 and libc.syscall(keyctl, 11, ctypes.c_int(key), buffer, 256) > 0:
        search(f"keyring {ring}", buffer.raw)
libc.syscall(add_key, b"user", b"ptb-planted", b"planted", 7, ctypes.c_int(-3))

descriptors = []
for name in os.listdir("/proc/self/fd"):
    with contextlib.suppress(OSError):
        descriptors.append(f"{name}: {os.readlink(f'/proc/self/fd/{name}')}")
print("FOUND " + json.dumps(found))
print("OPENED " + json.dumps(opened))
print("WRITTEN " + json.dumps(written))
print("DESCRIPTORS " + json.dumps(descriptors))
print("PROCESSES " + json.dumps(len([name for name in os.listdir("/proc") if name.isdigit()])))
print("NAMES " + json.dumps(sorted(os.environ)))
print("did look")
