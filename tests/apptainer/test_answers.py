"""HumanEval's answer server in a container of its own beside the one of the attempt (E §1.7.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptb_tui.run import processes
from ptb_tui.sandbox.apptainer import Apptainer
from tests.apptainer.conftest import IMAGE
from tests.run.test_answer_box import verdicts
from tests.tasks.test_answer_sandbox import RIGHT, WRONG

pytestmark = pytest.mark.apptainer


def test_every_wrong_answer_is_wrong_and_a_right_one_right(tmp_path: Path) -> None:
    sandbox = Apptainer(IMAGE)
    works, reason = sandbox.probe()
    if not works:
        pytest.skip(reason)
    found = verdicts(sandbox, tmp_path, {**WRONG, "first": RIGHT, "last": RIGHT})
    assert found == {**dict.fromkeys(WRONG, False), "first": True, "last": True}
    assert not list(processes.mounted(tmp_path)), "nothing is left alive, helpers of file systems included"
