"""What the harness makes of the check of the GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.run import gpu_check
from ptb_tui.run.outcomes import agent_end

FAILED = b"[check_cuda] warning: x\n[check_cuda] failed: CUDA is not available\n"
PASSED = b"[check_cuda] passed: 1 x H100\n"


def end(tmp_path: Path, head: bytes, rc: int = 97, gpus: object = 1, **record: object) -> tuple[str, str, str]:
    (tmp_path / "raw").write_bytes(head)
    facts = gpu_check.facts(tmp_path / "raw", gpus)
    return agent_end({"rc": rc, "signal": None, "stopped": "", "elapsed_s": 3.0, **record}, "", facts)[:3]


def test_a_check_that_failed_is_a_failure_of_the_site(tmp_path: Path) -> None:
    assert end(tmp_path, FAILED) == ("failed", "gpu", "CUDA is not available")
    assert end(tmp_path, b"") == ("failed", "gpu", "the check of the GPUs did not end")


@pytest.mark.parametrize(
    ("head", "rc", "gpus"),
    [
        (PASSED + FAILED, 97, 1),  # an agent that would rather be repeated
        (FAILED, 97, 0),  # there was no check
        (FAILED, 1, 1),
        (b"agent\n" + FAILED, 97, None),
    ],
)
def test_an_agent_that_started_ends_with_an_error_of_its_own(
    tmp_path: Path, head: bytes, rc: int, gpus: object
) -> None:
    assert end(tmp_path, head, rc, gpus)[:2] == ("done", "agent_exit")


def test_a_run_that_was_stopped_was_stopped(tmp_path: Path) -> None:
    assert end(tmp_path, FAILED, stopped="cancel")[:2] == ("cancelled", "operator")
    assert end(tmp_path, FAILED, stopped="signal")[:2] == ("failed", "preempted")


def test_a_trace_that_is_not_there_has_no_facts(tmp_path: Path) -> None:
    assert gpu_check.facts(tmp_path / "raw", 1) == {}
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert gpu_check.facts(tmp_path / "link", 1) == {}


@given(st.binary())
def test_any_beginning_of_a_trace_has_a_verdict(head: bytes) -> None:
    state, why = gpu_check.verdict(head)
    assert state in ("passed", "failed") and bool(why) == (state == "failed")
