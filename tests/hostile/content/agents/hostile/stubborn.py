"""Deaf to every signal that can be ignored, and so are its children; only KILL ends it."""

import os
import signal
import time

for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        break
else:
    print("did stubborn", flush=True)
for _ in range(6000):
    time.sleep(0.1)
