"""Fill the disk of the home, at most 200 MB in case nothing stops it, and go on as if nothing had happened."""

import sys

size = 0
try:
    with open("hoard.bin", "wb", buffering=0) as file:
        while size < 200:
            file.write(b"h" * (1 << 20))
            size += 1
except OSError as error:
    print("stopped:", error.strerror, flush=True)
    for number in range(10_000):  # the inodes too, and the last bytes
        try:
            with open(f"more{number}", "wb") as file:
                file.write(b"x" * 100)
        except OSError:
            break
    sys.exit(1)
print("did hoard", size, flush=True)
