"""What an attempt is relieved of after a failure for memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import load_task
from ptb_tui.evaluation import easing

INSPECT = {"max_tokens": 16000, "max_connections": 6, "gpu_memory_utilization": 0.8}


def test_fewer_requests_and_less_memory() -> None:
    found = easing.levels(INSPECT)
    assert easing.arguments(found, 0) == ()
    assert easing.arguments(found, 1) == ("--max-connections", "3", "--gpu-memory-utilization", "0.68")
    assert easing.arguments(found, 2) == ("--max-connections", "1", "--gpu-memory-utilization", "0.578")
    assert easing.arguments(found, 9) == easing.arguments(found, 2)


def test_a_task_may_say_its_own_levels() -> None:
    found = easing.levels({**INSPECT, "ease": [{"gpu_memory_utilization": 0.9, "max_tokens": 1}, {"x": 1}, 3]})
    assert found == ({"gpu_memory_utilization": 0.9},)


@pytest.mark.parametrize("name", ["arenahardwriting", "healthbench"])
def test_tasks_without_such_options_are_not_eased(name: str) -> None:
    task = load_task(Content.of(), name)
    assert easing.levels((task.file.model_extra or {}).get("evaluate")) == ()


_PLAIN: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)


@given(_PLAIN | st.dictionaries(st.sampled_from([*INSPECT, "ease"]), _PLAIN | st.lists(_PLAIN, max_size=3)))
def test_total(evaluate: Any) -> None:
    found = easing.levels(evaluate)
    assert len(easing.arguments(found, 1)) % 2 == 0
