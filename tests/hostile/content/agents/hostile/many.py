"""A hundred thousand tiny files."""

import os

for folder in range(100):
    os.makedirs(f"many/{folder}")
    at = os.open(f"many/{folder}", os.O_RDONLY | os.O_DIRECTORY)
    for number in range(1000):
        os.close(os.open(str(number), os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=at))
    os.close(at)
print("did many")
