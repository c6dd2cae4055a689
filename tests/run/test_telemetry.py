"""Samples of a job: what a machine does not tell is absent, never 0."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.run import telemetry
from ptb_tui.run.telemetry import Sampler

ROW = "0, GPU-1, NVIDIA H100, 97, 61, 70211, 81559, 64, 655.21"


def smi(folder: Path, script: str) -> Path:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return folder


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def test_without_a_gpu_nothing_is_claimed(scratch: Path) -> None:
    smi(scratch.parent, "exit 9")
    sample = Sampler([os.getpid()], scratch, ()).sample()
    assert "gpus" not in sample and "gpu_processes" not in sample
    text = telemetry.public_block(sample)
    assert text.startswith("--- 20") and "[GPU]\n  not reported\n[GPU Processes]\n  not reported\n[CPU]" in text
    assert text.endswith("\n\n") and "Task dir:" in text
    json.dumps(sample, allow_nan=False)


def test_a_gpu_with_values_it_cannot_tell(scratch: Path) -> None:
    smi(
        scratch.parent,
        f"case $1 in *compute-apps*) echo '42, 100, python';; *) echo '{ROW}'; "
        "echo '1, GPU-2, NVIDIA H100, [N/A], [N/A], 0, 81559, 41, [Unknown Error]';; esac",
    )
    sample = Sampler([], scratch, ()).sample()
    assert sample["gpus"][0]["power_w"] == 655.21 and "util_percent" not in sample["gpus"][1]
    assert sample["gpu_processes"] == ["42, 100, python"]
    text = telemetry.public_block(sample)
    assert "0, 97 %, 61 %, 70211 MiB, 81559 MiB, 64, 655.21 W\n" in text
    assert "1, [N/A], [N/A], 0 MiB, 81559 MiB, 41, [N/A]\n" in text
    assert [row["index"] for row in Sampler([], scratch, ("GPU-2",)).sample()["gpus"]] == ["1"]


def test_a_hanging_query_costs_one_timeout(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = scratch / "calls"
    smi(scratch.parent, f"echo x >> {count}; exec sleep 600")
    monkeypatch.setattr(telemetry, "SMI_TIMEOUT_S", 0.3)
    sampler = Sampler([], scratch, ())
    for _ in range(5):
        assert "gpus" not in sampler.sample()
    assert count.read_text() == "x\n"


def test_the_tree_of_a_process_is_counted(scratch: Path) -> None:
    code = "import subprocess, sys; c = subprocess.Popen(['cat'], stdin=0); print('up', flush=True); c.wait()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        sampler = Sampler([], scratch, ())
        assert sampler.sample()["job"] == {}
        sampler.pid_roots = [child.pid]
        job = sampler.sample()["job"]
        assert job["processes"] == 2 and job["rss_bytes"] > 0 and job["cpu_s"] >= 0
    finally:
        child.communicate()


def test_what_lies_in_the_scratch_is_counted_within_bounds(scratch: Path) -> None:
    (scratch / "sub").mkdir()
    (scratch / "sub" / "big").write_bytes(b"x" * 1_000_000)
    (scratch / "loop").symlink_to(scratch)
    used, whole = telemetry.used_below(scratch, 30)
    assert whole and used >= 1_000_000
    assert telemetry.used_below(scratch / "absent") == (0, True)
    for number in range(600):
        (scratch / f"f{number}").touch()
    assert telemetry.used_below(scratch, -1)[1] is False


@given(st.text() | st.lists(st.sampled_from([ROW, "a, b", ",,,,,,,,", "1,2,3,nan,inf,-1,1e99,x,9"])).map("\n".join))
def test_any_answer_of_the_driver_is_survived(text: str) -> None:
    sample = {"gpus": telemetry.parse_gpus(text)}
    json.dumps(sample, allow_nan=False)
    assert "[GPU]" in telemetry.public_block(sample)


def test_standard_library_alone() -> None:
    code = "import sys, ptb_tui.run.telemetry; print([m for m in sys.modules if m.startswith('pydantic')])"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
