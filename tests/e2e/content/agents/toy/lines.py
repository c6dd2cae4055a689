"""Print numbered lines, a hundred each second by the clock, whatever happens around."""

import sys
import time

start = time.monotonic()
for number in range(int(sys.argv[1])):
    print(f"line {number:06d} of an agent that keeps talking", flush=True)
    time.sleep(max(0.0, start + (number + 1) / 100 - time.monotonic()))
