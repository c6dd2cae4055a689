"""Say how much an installation will take, and refuse when the disk is too small: `room_for.py FOLDER MIB CUDA_MIB`."""

import importlib.util
import shutil
import subprocess
import sys


def main() -> int:
    """Print one line; 1 when there is no room."""
    folder, small, large = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if importlib.util.find_spec("torch") is not None:
        return 0
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "torch==2.13.0"],
        capture_output=True,
        text=True,
        check=False,
    )
    cpu = "+cpu" in answer.stdout
    need = small if cpu else large
    kind = "CPU build" if cpu else "CUDA build; see README.md for how to take the CPU build"
    free = shutil.disk_usage(folder).free >> 20
    print(f"Installing the demo's packages takes about {need} MiB (torch 2.13.0, {kind}); {free} MiB are free.")
    if free < need:
        print(f"Not enough room in {folder}: free {need - free} MiB more, or point .venv to another disk.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
