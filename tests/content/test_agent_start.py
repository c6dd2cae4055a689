"""What happens in the sandbox before the agent: the check of the GPUs, the monitor, the clock (H §1.8)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptb_tui.run import gpu_check
from ptb_tui.run.steps.agent import STARTERS, timer_script
from tests.e2e.conftest import REPOSITORY, until

SHARED = REPOSITORY / "agents" / "_shared"

# Devices and mistakes are told by variables: STUB_GPUS = "NVIDIA H100,NVIDIA H100".
TORCH = """
import os
if os.environ.get("STUB_NO_TORCH"):
    raise ImportError("No module named 'torch'")
class _Properties:
    def __init__(self, index): self.uuid = f"uuid-{index}"
class _Tensor:
    def cpu(self): return self
def rand(size, device):
    if os.environ.get("STUB_FULL") and device.endswith("1"):
        raise RuntimeError("CUDA out of memory\\nmore")
    return _Tensor()
class cuda:
    def is_available(): return bool(os.environ.get("STUB_GPUS"))
    def device_count(): return len(os.environ["STUB_GPUS"].split(","))
    def get_device_name(index):
        if os.environ.get("STUB_DRIVER"): raise RuntimeError("CUDA driver is out of order")
        return os.environ["STUB_GPUS"].split(",")[index]
    def get_device_properties(index): return _Properties(index)
"""
SMI = """#!/bin/bash
echo "$*" >>"$HOME/smi.calls"
[ -z "$STUB_SMI" ] || { echo "Failed to initialize NVML"; exit 9; }
case "$*" in *"$STUB_BUSY"*) [ -z "$STUB_BUSY" ] || echo "4242, 70000 MiB" ;; esac
"""
SOLVE = """echo agent "$@"; env | grep -c PTB_GPU_NAME; bash timer.sh; exit 5
"""


class Start:
    def __init__(self, base: Path) -> None:
        self.home, self.task, self.bin = base / "home", base / "home" / "task", base / "bin"
        for folder in (self.home / "agent", self.task, self.bin, base / "stub"):
            folder.mkdir(parents=True)
        for name in STARTERS:
            shutil.copy(SHARED / name, self.home / "agent" / name)
        (base / "stub" / "torch.py").write_text(TORCH)
        (self.home / "agent_solve.sh").write_text(SOLVE)
        (self.task / "timer.sh").write_text(timer_script(2))
        (self.bin / "nvidia-smi").write_text(SMI)
        (self.bin / "nvidia-smi").chmod(0o755)
        self.env = {
            "PATH": f"{self.bin}:{os.path.dirname(sys.executable)}:/usr/bin:/bin",
            "HOME": str(self.home),
            "PYTHONPATH": str(base / "stub"),
            "MONITOR_INTERVAL": "300",
            "LANG": "C.UTF-8",
        }

    def run(self, **env: str) -> subprocess.CompletedProcess[str]:
        process = subprocess.Popen(
            ["bash", self.home / "agent" / "agent_start.sh"], cwd=self.task, env={**self.env, **env}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            out, _ = process.communicate(timeout=60)
            if process.returncode != gpu_check.STATUS:
                until(lambda: "Task dir:" in self.monitor(), "the monitor's first block")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the monitor, as the end of a sandbox does
        return subprocess.CompletedProcess(process.args, process.returncode, out)

    def monitor(self) -> str:
        path = self.task / "system_monitor.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    yield Start(tmp_path)


def test_without_gpus_the_agent_starts_at_once_with_its_clock_at_zero(start: Start) -> None:
    (start.task / "timer.sh").touch()
    os.utime(start.task / "timer.sh", (1, 1))
    done = start.run(NUM_GPUS="0", PTB_GPU_NAME="H100")
    assert done.returncode == 5, "the agent's own status"
    assert done.stdout.splitlines()[:3] == ["agent", "0", "Remaining time (hours:minutes):"]
    assert done.stdout.splitlines()[3] in ("1:59", "2:00")
    line = (start.task / "timer.sh").read_text().splitlines()[1]
    assert line.startswith("start=") and abs(int(line.removeprefix("start=")) - time.time()) < 600


def test_the_monitor_has_the_form_of_the_original(start: Start) -> None:
    start.run(NUM_GPUS="0")
    lines = start.monitor().splitlines()
    assert lines[0] == "=== System Monitor Started (interval: 300s) ===" and lines[1].startswith("Start time: 20")
    heads = [line for line in lines if line.startswith(("[", "---"))]
    assert heads[0].startswith("--- 20") and heads[0].endswith(" UTC ---")
    assert heads[1:] == ["[GPU]", "[GPU Processes]", "[CPU]", "[Memory]", "[Disk]"]
    assert any(line.startswith("  Task dir: ") for line in lines)


def test_a_check_that_passes_is_followed_by_the_agent(start: Start) -> None:
    done = start.run(NUM_GPUS="2", PTB_GPU_NAME="H100", STUB_GPUS="NVIDIA H100 80GB,NVIDIA H100 80GB")
    assert done.returncode == 5
    assert done.stdout.splitlines()[:2] == ["[check_cuda] passed: 2 × NVIDIA H100 80GB", "agent"]
    asked = (start.home / "smi.calls").read_text()
    assert "--id=GPU-uuid-0" in asked and "--id=GPU-uuid-1" in asked
    assert gpu_check.verdict(done.stdout.encode()) == ("passed", "")
    assert not (start.task / "cuda_not_available").exists()


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"NUM_GPUS": "1", "STUB_GPUS": ""}, "CUDA is not available"),
        ({"NUM_GPUS": "1", "STUB_GPUS": "A,B"}, "2 GPUs are visible, 1 were promised"),
        ({"NUM_GPUS": "1", "STUB_GPUS": "NVIDIA A100", "PTB_GPU_NAME": "H100"}, "GPU 0 is NVIDIA A100, not H100"),
        (
            {"NUM_GPUS": "2", "STUB_GPUS": "A,A", "STUB_BUSY": "GPU-uuid-1"},
            "GPU 1 (A) is used by another process: 4242",
        ),
        (
            {"NUM_GPUS": "2", "STUB_GPUS": "A,A", "STUB_FULL": "1"},
            "nothing can be allocated on GPU 1: CUDA out of memory",
        ),
        ({"NUM_GPUS": "1", "STUB_GPUS": "A", "STUB_DRIVER": "1"}, "CUDA cannot be used: CUDA driver is out of order"),
        ({"NUM_GPUS": "many", "STUB_GPUS": "A"}, "cannot be checked: invalid literal"),
        ({"NUM_GPUS": "1", "STUB_NO_TORCH": "1"}, "cannot be checked: No module named 'torch'"),
    ],
)
def test_gpus_that_cannot_be_used_leave_a_mark_and_no_agent(start: Start, env: dict[str, str], words: str) -> None:
    done = start.run(**env)
    assert done.returncode == gpu_check.STATUS == 97
    assert words in done.stdout and "agent\n" not in done.stdout
    assert (start.task / "cuda_not_available").is_file() and not start.monitor()
    state, why = gpu_check.verdict(done.stdout.encode())
    assert state == "failed" and words in why


def test_nvidia_smi_that_does_not_answer_is_a_warning(start: Start) -> None:
    done = start.run(NUM_GPUS="1", STUB_GPUS="A", STUB_SMI="1")
    assert done.returncode == 5 and "warning: nvidia-smi ended with status 9: Failed to initialize NVML" in done.stdout


def test_a_python_that_is_not_there_leaves_the_mark_too(start: Start) -> None:
    for tool in ("bash", "timeout"):
        (start.bin / tool).symlink_to(shutil.which(tool) or tool)
    done = start.run(NUM_GPUS="1", PATH=str(start.bin))
    assert done.returncode == 97 and (start.task / "cuda_not_available").is_file()
    assert gpu_check.verdict(done.stdout.encode()) == ("failed", "the check of the GPUs did not end")
