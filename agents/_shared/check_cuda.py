"""Whether the GPUs that a run was promised can be used (H §1.8). Started in the sandbox before the agent.

NUM_GPUS (default 1) is how many there must be, PTB_GPU_NAME what the name of each must contain (empty: any). Needs
torch. Ends with 1 and a file `cuda_not_available` in the working directory when something is wrong. The last line is
"[check_cuda] passed: …" only when nothing is: the harness looks for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

MARK = "[check_cuda]"


def say(words: str) -> None:
    """One line for the trace."""
    print(f"{MARK} {words}", flush=True)


def uuid_of(torch: Any, index: int) -> str:
    """How nvidia-smi knows the device: its own numbers are not those that a process sees."""
    found = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    if found is not None:
        text = str(found)
        return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"
    visible = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    return visible[index] if index < len(visible) else str(index)


def others_on(device: str) -> list[str]:
    """Compute processes on a device, as nvidia-smi lists them; empty, with a warning, when it does not answer."""
    command = ["nvidia-smi", f"--id={device}", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        say(f"warning: nvidia-smi does not answer: {error}")
        return []
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    if done.returncode != 0:
        say(f"warning: nvidia-smi ended with status {done.returncode}: {' '.join(lines)[:200]}")
        return []
    return [line.strip() for line in lines if line.strip()]


def check(torch: Any, wanted: int, name: str) -> tuple[list[str], list[str]]:
    """Names of the devices, and everything that is wrong."""
    if not torch.cuda.is_available():
        return [], ["CUDA is not available"]
    count = torch.cuda.device_count()
    devices = [torch.cuda.get_device_name(index) for index in range(count)]
    problems = []
    if count != wanted:
        problems.append(f"{count} GPUs are visible, {wanted} were promised")
    for index, device in enumerate(devices):
        if name and name not in device:
            problems.append(f"GPU {index} is {device}, not {name}")
        for line in others_on(uuid_of(torch, index)):
            problems.append(f"GPU {index} ({device}) is used by another process: {line}")
    for index in range(count):  # after the question who uses it: this process will
        try:
            torch.rand(1, device=f"cuda:{index}").cpu()
        except RuntimeError as error:
            problems.append(f"nothing can be allocated on GPU {index}: {str(error).splitlines()[0][:300]}")
    return devices, problems


def main() -> int:
    """Check, say what was found, and leave the mark when it is not good."""
    try:
        wanted = int(os.environ.get("NUM_GPUS") or 1)
        import torch
    except (ImportError, ValueError, OSError) as error:
        devices, problems = [], [f"cannot be checked: {error}"]
    else:
        try:
            devices, problems = check(torch, wanted, os.environ.get("PTB_GPU_NAME", ""))
        except (RuntimeError, AssertionError, OSError) as error:  # what torch raises for a driver that does not answer
            devices, problems = [], [f"CUDA cannot be used: {(str(error).splitlines() or ['?'])[0][:300]}"]
    if problems:
        for problem in problems:
            say(f"failed: {problem}")
        with open("cuda_not_available", "w"):
            pass
        return 1
    say(f"passed: {len(devices)} × {', '.join(sorted(set(devices)))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
