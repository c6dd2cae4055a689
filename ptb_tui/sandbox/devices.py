"""Which device nodes a command with GPUs needs: the devices it was given, and none of its neighbours'."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ptb_tui.sandbox.base import refuse

DEV = Path("/dev")
DRIVER = Path("/proc/driver/nvidia/gpus")
_SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")
_MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.M)
_UUID = re.compile(r"^GPU UUID:\s*(\S+)", re.M)


def minors(driver: Path = DRIVER) -> list[tuple[str, int]]:
    """UUID and minor number of every GPU, in PCI order, which is nvidia-smi's index order."""
    found = []
    try:
        addresses = sorted(os.listdir(driver))
    except OSError:
        return []
    for address in addresses:
        try:
            with open(driver / address / "information", encoding="utf-8", errors="replace") as file:
                text = file.read(65536)
        except OSError:
            continue
        minor, uuid = _MINOR.search(text), _UUID.search(text)
        if minor:
            found.append((uuid[1] if uuid else "", int(minor[1])))
    return found


def nodes(gpus: tuple[str, ...], dev: Path = DEV, driver: Path = DRIVER) -> tuple[tuple[Path, ...], bool]:
    """The device nodes for `gpus`, and whether they are exactly those.

    Without GPUs none. A MIG instance, or a driver that tells nothing in /proc, brings every GPU of the machine and
    False: CUDA_VISIBLE_DEVICES in the command's environment then is the only limit. StepError(cause="sandbox") when a
    GPU does not exist.
    """
    if not gpus:
        return (), True
    every = sorted(path for path in dev.glob("nvidia[0-9]*") if path.name[6:].isdigit())
    shared = [dev / name for name in _SHARED if (dev / name).exists()]
    known = minors(driver)
    if not every:
        raise refuse("GPUs were asked for, but this machine has no /dev/nvidia device", hint="`ptb-tui doctor`")
    if not known or any(gpu.startswith("MIG-") for gpu in gpus):
        return (*shared, *every), False
    by_name = {uuid: minor for uuid, minor in known if uuid} | {str(n): minor for n, (_, minor) in enumerate(known)}
    unknown = [gpu for gpu in gpus if gpu not in by_name]
    if unknown:
        raise refuse(f"this machine has no GPU {', '.join(unknown)}; it has {', '.join(sorted(by_name))}")
    wanted = {by_name[gpu] for gpu in gpus}
    return (*shared, *(path for path in every if int(path.name[6:]) in wanted)), True
