"""What many tests of the tasks share, so that it starts once: imports, and a server of the small model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tasks.forked import Scripts, forking
from tests.tasks.standin import backend

MODEL = Path(__file__).with_name("model")


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scripts]:
    with forking(tmp_path_factory.mktemp("forked")) as found:
        yield found


@pytest.fixture(scope="session")
def served() -> Iterator[str]:
    """The model behind a server, for stand-ins of `vllm serve` that pass on what they are asked."""
    with backend(MODEL) as url:
        yield url
