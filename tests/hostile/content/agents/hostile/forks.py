"""Fork until stopped, at most 500 times, and leave them all behind."""

import os
import signal
import time

reached = 0
for reached in range(500):
    try:
        if os.fork() == 0:
            if reached % 3 == 0:
                os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
            os._exit(0)
    except OSError as error:
        print("stopped:", error)
        break
print("did forks", reached + 1)
