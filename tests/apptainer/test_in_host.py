"""The tests of this folder that need a normal user and Apptainer, in a host of the testbed."""

from __future__ import annotations

import pytest

from tests.testbed.bed import Bed
from tests.testbed.conftest import testbed  # noqa: F401

pytestmark = [pytest.mark.apptainer, pytest.mark.testbed]


OURS = [f"tests/apptainer/test_{name}.py" for name in ("sandbox", "kill", "run", "judge", "supplies", "answers")]
ANSWERS = "tests/tasks/test_answer_sandbox.py::test_cases_in_a_container"


@pytest.mark.parametrize("name", [*OURS, ANSWERS])
def test_as_a_normal_user(testbed: Bed, name: str) -> None:  # noqa: F811
    testbed.up("ws")
    place = "/home/alice/pytest-apptainer"
    script = (
        f"cd {testbed.product} && rm -rf {place} && exec env PTB_REQUIRE=apptainer OMP_NUM_THREADS=1 "
        f"PYTHONDONTWRITEBYTECODE=1 "
        f"PTB_ANSWER_IMAGE={testbed.image} PATH={testbed.runtime}/bin:/usr/bin:/bin {testbed.python} -m pytest -q "
        f"-p no:cacheprovider --basetemp={place} {name}"
    )
    done = testbed.run("ws", "bash", "-c", script, user="alice", timeout=1500)
    print(done.stdout[-6000:])
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    testbed.output("ws", "rm", "-rf", place)
