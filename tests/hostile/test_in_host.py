"""The same attacks in real containers, as a normal user in a host of the testbed."""

from __future__ import annotations

import pytest

from tests.testbed.bed import Bed
from tests.testbed.conftest import testbed  # noqa: F401

pytestmark = [pytest.mark.hostile, pytest.mark.apptainer, pytest.mark.testbed]


def test_in_containers(testbed: Bed) -> None:  # noqa: F811
    testbed.up("ws")
    place = "/home/alice/pytest-hostile"
    script = (
        f"cd {testbed.product} && rm -rf {place} && mkdir {place} && exec env PTB_REQUIRE=apptainer OMP_NUM_THREADS=1 "
        f"TMPDIR={place} PYTHONDONTWRITEBYTECODE=1 PATH={testbed.runtime}/bin:/usr/bin:/bin {testbed.python} -m pytest "
        f"-q -p no:cacheprovider --basetemp={place}/pytest tests/hostile/test_attacks.py -k apptainer"
    )
    done = testbed.run("ws", "bash", "-c", script, user="alice", timeout=900)
    print(done.stdout[-6000:])
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
