"""Children that leave: double forks in sessions of their own, without environment, deaf to signals, writing on."""

import os
import signal
import sys

LOOP = """
import itertools, os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
for turn in itertools.count():
    try:
        with open("final_model/late.txt", "a") as file:
            file.write("late ")
        os.utime("final_model")
        if turn % 50 == 0 and os.fork() == 0:
            os.setsid()
    except OSError:
        pass
    if turn > 30000:
        os._exit(0)
    time.sleep(0.02)
"""
for number in range(4):
    if os.fork():
        continue
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if number % 2:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
    os.execve(sys.executable, ["[kworker/0:1]", "-c", LOOP], {})
while not os.path.exists("final_model/late.txt"):
    pass
print("did daemons")
