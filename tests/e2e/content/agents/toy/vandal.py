"""Try to undo what was printed: truncate, seek and open the standard output again."""

import contextlib
import os

print("before", flush=True)
for spoil in (lambda: os.ftruncate(1, 0), lambda: os.lseek(1, 0, 0), lambda: os.pwrite(1, b"overwritten", 0)):
    with contextlib.suppress(OSError):
        spoil()
for mode in ("w", "r+"):
    with contextlib.suppress(OSError), open("/proc/self/fd/1", mode) as again:
        again.write("opened again\n")
print("after", flush=True)
