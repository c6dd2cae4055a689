"""The CLIs of the tests, installed once for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realcli.stage import Stage, install


@pytest.fixture(scope="session")
def clis(tmp_path_factory: pytest.TempPathFactory) -> None:
    install(tmp_path_factory.mktemp("install"))


@pytest.fixture
def stage(tmp_path: Path, clis: None) -> Iterator[Stage]:
    os.chmod(tmp_path, 0o755)
    place = Stage(tmp_path)
    yield place
    place.close()
