"""How an evaluation script gives its result: to the driver's descriptor, which nothing else has, and to a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SHARED = Path(__file__).parents[2] / "tasks" / "shared"
SCRIPT = """
import os, subprocess, sys
from pathlib import Path
import ptb_metrics
assert "PTB_RESULT_FD" not in os.environ
subprocess.run([sys.executable, "-c", "import os, sys; assert not sys.stdin.read(); os.write(0, b'x')"])
ptb_metrics.write_metrics(Path(sys.argv[1]), {"accuracy": 0.125, "why": "first and longer than the second"})
ptb_metrics.write_metrics(Path(sys.argv[1]), {"accuracy": 0.25})
"""


def told(path: str, cwd: Path, channel: bool = True) -> bytes:
    """What arrives at the driver."""
    descriptor = os.memfd_create("result")
    try:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SHARED), **({"PTB_RESULT_FD": "0"} if channel else {})}
        stdin = descriptor if channel else subprocess.DEVNULL
        code = SCRIPT if channel else SCRIPT.replace("; os.write(0, b'x')", "")
        subprocess.run([sys.executable, "-c", code, path], env=env, cwd=cwd, stdin=stdin, check=True, timeout=60)
        return os.pread(descriptor, 1 << 16, 0)
    finally:
        os.close(descriptor)


def test_the_driver_is_told_and_no_file_is_needed(tmp_path: Path) -> None:
    assert json.loads(told("/proc/self/fd/0", tmp_path)) == {"accuracy": 0.25}
    assert os.listdir(tmp_path) == []


def test_a_file_is_written_besides(tmp_path: Path) -> None:
    assert json.loads(told("out/metrics.json", tmp_path)) == {"accuracy": 0.25}
    assert json.loads((tmp_path / "out" / "metrics.json").read_text()) == {"accuracy": 0.25}


def test_without_a_driver_there_is_the_file_alone(tmp_path: Path) -> None:
    assert told("metrics.json", tmp_path, channel=False) == b""
    assert os.listdir(tmp_path) == ["metrics.json"]
