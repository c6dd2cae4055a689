"""The tests of this folder that need a normal user and Apptainer, in a host of the testbed."""

from __future__ import annotations

import pytest

from tests.testbed.bed import Bed
from tests.testbed.conftest import testbed  # noqa: F401

pytestmark = [pytest.mark.apptainer, pytest.mark.testbed]


@pytest.mark.parametrize("name", ["test_sandbox", "test_kill", "test_run", "test_judge", "test_supplies"])
def test_as_a_normal_user(testbed: Bed, name: str) -> None:  # noqa: F811
    testbed.up("ws")
    place = f"/home/alice/pytest-{name}"
    script = (
        f"cd {testbed.product} && rm -rf {place} && exec env PTB_REQUIRE=apptainer OMP_NUM_THREADS=1 "
        f"PYTHONDONTWRITEBYTECODE=1 PATH={testbed.runtime}/bin:/usr/bin:/bin {testbed.python} -m pytest -q "
        f"-p no:cacheprovider --basetemp={place} tests/apptainer/{name}.py"
    )
    done = testbed.run("ws", "bash", "-c", script, user="alice", timeout=1500)
    print(done.stdout[-6000:])
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    testbed.output("ws", "rm", "-rf", place)
