"""A Slurm of two nodes and two partitions, used from a login host that shares their folders."""

from __future__ import annotations

from functools import partial

import pytest

from tests.testbed.bed import Bed
from tests.testbed.place import wait_for

pytestmark = pytest.mark.slurm

JOB = """#!/bin/bash
trap 'echo stopped >> {name}.said; exit 3' TERM
hostname > {name}.said
sleep 600 & wait
"""
GPUS = ("--gres=gpu:h100:2", "--mem=1G")


def _submit(testbed: Bed, name: str, *options: str) -> str:
    testbed.output("head2", "sh", "-c", f"rm -f {name}.said; cat > {name}.sh", stdin=JOB.format(name=name))
    return testbed.output("head2", "sbatch", "--parsable", *GPUS, *options, f"{name}.sh").strip()


def _state(testbed: Bed, job: str) -> str:
    return testbed.output("head2", "squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()


def _reaches(testbed: Bed, job: str, state: str) -> None:
    wait_for(f"job {job} is {state}", lambda: _state(testbed, job) == state, 60)


def _said(testbed: Bed, name: str) -> list[str]:
    done = testbed.run("head2", "cat", f"{name}.said")
    return done.stdout.split()


def test_both_nodes_run_jobs_of_the_login_host(testbed: Bed) -> None:
    testbed.up("slurm2", "head2")
    jobs = [_submit(testbed, name, "-w", name) for name in ("slurm", "slurm2")]
    for job, name in zip(jobs, ("slurm", "slurm2"), strict=True):
        _reaches(testbed, job, "RUNNING")
        assert wait_for(f"{name} writes", partial(_said, testbed, name), 30) == [f"{name}.ptb.test"]
    testbed.output("head2", "scancel", *jobs)
    for job in jobs:
        _reaches(testbed, job, "CANCELLED")


def test_an_urgent_job_ends_one_of_the_lower_partition_with_grace(testbed: Bed) -> None:
    testbed.up("slurm", "head2")
    low = _submit(testbed, "low", "-w", "slurm")
    wait_for("the low job runs", partial(_said, testbed, "low"), 60)
    high = _submit(testbed, "high", "-w", "slurm", "-p", "urgent")
    _reaches(testbed, high, "RUNNING")
    assert _state(testbed, low) == "PREEMPTED"
    assert _said(testbed, "low") == ["slurm.ptb.test", "stopped"]
    testbed.output("head2", "scancel", high)
    _reaches(testbed, high, "CANCELLED")
