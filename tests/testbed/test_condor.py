"""A pool with two login hosts, each with a schedd, on one shared folder."""

from __future__ import annotations

import pytest

from tests.testbed.bed import Bed
from tests.testbed.place import wait_for

pytestmark = pytest.mark.condor

JOB = """executable = /bin/bash
arguments = "-c 'trap ""echo stopped >> {name}.said; exit 3"" TERM; echo began >> {name}.said; sleep {seconds} & wait'"
log = {name}.log
queue
"""

EVERY = 0.5  # seconds; a scheduler that is asked without a pause stops answering


def _submit(testbed: Bed, host: str, name: str, seconds: int) -> str:
    testbed.output(host, "sh", "-c", f"rm -f {name}.*; cat > {name}.sub", stdin=JOB.format(name=name, seconds=seconds))
    return testbed.output(host, "condor_submit", "-terse", f"{name}.sub").split(".")[0]


def _status(testbed: Bed, host: str, job: str) -> str:
    """The job's number of state, "" when the queue has no such job, "?" when a busy scheduler does not answer."""
    done = testbed.run(host, "condor_q", "-af", "JobStatus", "-constraint", f"ClusterId=={job}")
    return done.stdout.strip() if done.returncode == 0 else "?"


def test_a_job_of_the_second_login_host_runs_and_the_first_one_sees_it(testbed: Bed) -> None:
    testbed.up("head2")
    job = _submit(testbed, "head2", "second", 600)
    wait_for("the job runs", lambda: _status(testbed, "head2", job) == "2", 60, EVERY)
    assert _status(testbed, "head", job) == ""
    seen = testbed.output("head", "condor_q", "-name", "head2.ptb.test", "-af", "ClusterId", "JobStatus")
    assert f"{job} 2" in seen.splitlines()
    testbed.output("head", "condor_rm", "-name", "head2.ptb.test", job)
    wait_for("the job is gone", lambda: _status(testbed, "head2", job) == "", 30, EVERY)
    assert "began" in testbed.output("head", "cat", "second.said")


def test_a_vacated_job_is_told_and_runs_again(testbed: Bed) -> None:
    testbed.up("head")
    job = _submit(testbed, "head", "moved", 600)

    def said() -> list[str]:
        return testbed.run("head", "cat", "moved.said").stdout.split()

    wait_for("the job has begun", lambda: said() == ["began"], 60)
    testbed.output("head", "condor_vacate_job", job)
    wait_for("the job has begun again", lambda: said() == ["began", "stopped", "began"], 60)
    testbed.output("head", "condor_rm", job)
    wait_for("the job is gone", lambda: _status(testbed, "head", job) == "", 30, EVERY)
