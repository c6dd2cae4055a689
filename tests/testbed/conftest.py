"""The fixture `testbed`. Other folders use it by `from tests.testbed.conftest import testbed  # noqa: F401`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.testbed.bed import Bed, borrowed, unavailable

MARKERS = frozenset({"testbed", "apptainer", "condor", "slurm", "ssh"})


@pytest.fixture(scope="session")
def testbed() -> Iterator[Bed]:
    """Real hosts; a test names those it needs with `testbed.up(…)`. Skips, or fails where PTB_REQUIRE demands them."""
    if reason := unavailable():
        if MARKERS & set(os.environ.get("PTB_REQUIRE", "").split()):
            pytest.fail(reason)
        pytest.skip(reason)
    with borrowed() as bed:
        yield bed
