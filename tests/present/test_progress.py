import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.query import RunRow
from ptb_tui.core.states import State
from ptb_tui.present.output import Output
from ptb_tui.present.progress import Label, Seen, describe, frame
from ptb_tui.present.table import plain, text_width

OUT = Output(stdout=io.StringIO(), stderr=io.StringIO())
HOSTILE = "\x1b]0;x\x07\x1b[2J[red]\u202e"


class Sized(Output):
    """An output of a given size."""

    size = (80, 24)

    @property
    def width(self) -> int | None:
        return self.size[0]

    @property
    def height(self) -> int:
        return self.size[1]


def seen(number: int = 7, at: float = 100.0, **more: object) -> Seen:
    values: dict[str, object] = {
        "method": "m",
        "benchmark": "demo",
        "model": "local/demo-base",
        "state": "running",
        "step": "agent",
        "steps_total": 6,
        "seconds": 42.0,
        "remaining": 318.0,
        **more,
    }
    return Seen(RunRow.model_validate({"id": number, **values}), at, Label("reference", "demo", "local/demo-base"))


def test_time_goes_on_between_two_answers_only_while_it_runs() -> None:
    running, waiting = seen(), seen(state="queued")
    assert running.elapsed(110.0) == 52.0 and running.remaining(110.0) == 308.0
    assert waiting.elapsed(110.0) == 42.0 and waiting.remaining(110.0) is None


def test_one_line_says_state_step_time_and_worth() -> None:
    row = seen(state="failed", cause="gpu", steps_ended=6, worth="failed", flags=("model at risk",), remaining=None)
    assert describe(OUT, row, 100.0) == "failed (the GPU could not be used), 42s, model at risk, failed"
    assert describe(OUT, seen(phase="solve"), 102.0) == "running, step 1 of 6: agent, solve, 44s, 5m 16s left"


@pytest.mark.parametrize(("size", "task"), [((80, 24), False), ((140, 24), True)])
def test_a_narrow_picture_leaves_out_what_is_the_same_everywhere(size: tuple[int, int], task: bool) -> None:
    out = Sized(stdout=io.StringIO(), stderr=io.StringIO())
    out.size = size
    header = plain(frame(out, [seen(1), seen(2)], [], 0.0))[0]
    assert ("TASK" in header) is task and ("MODEL" in header) is task


@given(st.integers(0, 60), st.sampled_from([(80, 24), (40, 6), (200, 50)]), st.sampled_from([s.value for s in State]))
def test_the_picture_fits_the_terminal(count: int, size: tuple[int, int], state: str) -> None:
    out = Sized(stdout=io.StringIO(), stderr=io.StringIO())
    out.size = size
    rows = [seen(number, state=state, phase=HOSTILE, method=HOSTILE) for number in range(count)]
    lines = plain(frame(out, rows, [], 0.0))
    assert len(lines) <= max(size[1] - 1, 6)
    for line in lines:
        assert "\x1b" not in line and "\n" not in line
        assert size[0] < 80 or text_width(line) <= size[0]


def test_running_ones_come_first() -> None:
    rows = [seen(1, state="done", steps_ended=6), seen(2, state="queued"), seen(3)]
    lines = plain(frame(Sized(stdout=io.StringIO(), stderr=io.StringIO()), rows, [], 0.0))
    assert [line.split()[0] for line in lines[1:4]] == ["3", "2", "1"]
    assert lines[4].startswith("1 of 3 runs ended")
