"""Sessions that end while their work goes on (case D02)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind
from ptb_tui.traces.background import Background
from tests.traces.samples import parse

SAID = [
    "Training is now running. I'll wait for it to finish before I evaluate.",
    "The training continues in the background; I will check back later.",
    "Waiting for the training run to complete.",
    "The fine-tuning job is still running.",
    "Once the sweep finishes, I'll pick the best checkpoint.",
]
FINE = [
    "Saved the best checkpoint to final_model.",
    "I ran the training in three stages and waited for each of them.",
    "The model is in final_model; evaluation gives 0.51.",
    "",
]


def end(*items: object, family: str = "claude") -> list[TraceEvent]:
    return parse("".join(json.dumps(item) + "\n" for item in items).encode(), family)


def claude(text: str) -> list[TraceEvent]:
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}
    return end(said, {"type": "result", "subtype": "success", "is_error": False, "result": text})


def codex(text: str) -> list[TraceEvent]:
    item = {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}}
    return end(item, {"type": "turn.completed", "usage": {}}, family="codex")


def gemini(text: str) -> list[TraceEvent]:
    pieces = [{"type": "message", "role": "assistant", "content": part, "delta": True} for part in (text, "\n")]
    return end(*pieces, {"type": "result", "status": "success"}, family="gemini")


def opencode(text: str) -> list[TraceEvent]:
    said = {"type": "text", "part": {"text": text}}
    return end(said, {"type": "step_finish", "part": {"reason": "stop"}}, family="opencode")


def grok(text: str) -> list[TraceEvent]:
    return end({"type": "text", "data": text}, {"type": "end", "stopReason": "EndTurn"}, family="grok")


@pytest.mark.parametrize("family", [claude, codex, gemini, opencode, grok])
def test_the_last_words_say_that_it_goes_on(family: object) -> None:
    assert callable(family)
    for text in SAID:
        left, last = family(text)[-2:]
        assert (left.kind, left.severity) == (TraceKind.ERROR, Severity.WARNING), text
        assert left.data == {"trouble": "background", "said": True}
        assert last.data["trouble"] == "background" and last.offset == left.offset
    for text in FINE:
        assert all("trouble" not in event.data for event in family(text)), text


def test_only_the_last_words_count() -> None:
    assert all("trouble" not in event.data for text in SAID for event in [*claude(f"{text}{'. ' * 900}Done.")])
    first = {"type": "assistant", "message": {"content": [{"type": "text", "text": SAID[0]}]}}
    then = {"type": "assistant", "message": {"content": [{"type": "text", "text": FINE[0]}]}}
    assert "trouble" not in end(first, then, {"type": "result", "subtype": "success"})[-1].data


def bash(call_id: str, **more: object) -> dict[str, object]:
    block = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "python train.py", **more}}
    return {"type": "assistant", "message": {"content": [block]}}


def test_open_tasks_of_claude() -> None:
    result = {"type": "result", "subtype": "success"}
    done = {"type": "system", "subtype": "task_notification", "tool_use_id": "a", "status": "completed"}
    started = {"type": "system", "subtype": "task_started", "tool_use_id": "b", "is_backgrounded": True}
    assert end(bash("a"), result)[-1].data == {"subtype": "success"}
    assert end(bash("a", run_in_background=True), done, result)[-1].data == {"subtype": "success"}
    left = end(bash("a", run_in_background=True), started, result)
    assert left[-2].title == "ended while 2 background tasks were running" and left[-1].data["open_tasks"] == 2
    again = end(bash("a", run_in_background=True), result, {"type": "system", "subtype": "init"}, result)
    assert "trouble" in again[2].data and "trouble" not in again[-1].data  # each session speaks for itself


def test_an_open_command_of_codex() -> None:
    item = {"id": "item_1", "type": "command_execution", "command": "python train.py"}
    started, done = {"type": "item.started", "item": item}, {"type": "item.completed", "item": {**item, "exit_code": 0}}
    turn = {"type": "turn.completed", "usage": {}}
    assert end(started, turn, family="codex")[-1].data["open_tasks"] == 1
    assert "trouble" not in end(started, done, turn, family="codex")[-1].data


def test_a_failed_session_is_no_early_end() -> None:
    text = {"type": "assistant", "message": {"content": [{"type": "text", "text": SAID[0]}]}}
    assert "trouble" not in end(text, {"type": "result", "subtype": "error_max_turns", "is_error": True})[-1].data


@given(st.lists(st.tuples(st.booleans(), st.text(max_size=3)), max_size=40), st.text(max_size=300))
def test_total_and_forgetful(steps: list[tuple[bool, str]], words: str) -> None:
    seen = Background()
    for begun, name in steps:
        (seen.begin if begun else seen.end)(name)
    seen.said(words)
    seen.at_end()
    assert seen.at_end() == {}


def test_bounded() -> None:
    seen = Background()
    for number in range(1000):
        seen.begin(str(number))
    assert seen.at_end()["open_tasks"] == 256
