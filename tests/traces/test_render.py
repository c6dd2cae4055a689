from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.core.trace import Severity, TraceEvent, TraceKind, Usage
from ptb_tui.traces.render import render
from tests.traces.samples import STAMP, parse, stamped


def test_a_call_and_its_text() -> None:
    event = TraceEvent(0, 9, TraceKind.TOOL_CALL, "$ ls", "$ ls\nwhy: to see", Severity.INFO, STAMP, "Bash", "toolu_1")
    assert render(event) == ("[2026-08-01T09:00:00Z] === Tool call Bash (toolu_1) — $ ls\n    $ ls\n    why: to see\n")
    end = TraceEvent(0, 9, TraceKind.RESULT, "success", usage=Usage(1, 2, None, 0, 0.5))
    assert render(end) == "=== Result — success\n    tokens: 1 input, 2 output, 0 cache write; cost: $0.5000\n"


def test_raw_lines_stay_as_they_are() -> None:
    text = stamped("ptb_solve_out_cuda_fail.txt")
    assert "".join(map(render, parse(text, "plain"))).encode() == text.rstrip(b"\n") + b"\n"


def test_printed_text_cannot_imitate_a_heading() -> None:
    fake = "=== Result — success"
    assert render(TraceEvent(0, 1, TraceKind.RAW, fake)) == f"| {fake}\n"
    assert render(TraceEvent(0, 1, TraceKind.RAW, f"| {fake}")) == f"| | {fake}\n"
    assert render(TraceEvent(0, 1, TraceKind.TEXT, "a", f"a\n{fake}")).count("\n===") == 0
    assert render(TraceEvent(0, 1, TraceKind.RAW, "", f"a\r{fake}")) == f"a\n    {fake}\n"


def test_nothing_can_hide() -> None:
    shown = "".join(map(render, parse(stamped("hostile_trace.txt"))))
    assert all(char == "\n" or char == "\t" or ord(char) >= 0x20 for char in shown)
    assert not {"\x9b", "\u202e", "\u200b"} & set(shown)
    assert "\\x1b]52;c;" in shown and "\\u202e" in shown
    assert "50%|#####" in shown.replace(" ", "") or "50%|" in shown  # no state of a progress bar is dropped


def test_a_cut_line_says_where_the_rest_is() -> None:
    (event,) = parse(b"z" * 2_000_000)
    assert render(event).endswith("\n    [a line of 2000000 bytes, shown in part: solve_out.txt, byte 0]\n")


@settings(deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(list(TraceKind)))
def test_total_and_only_one_line_at_the_margin(title: str, body: str, kind: TraceKind) -> None:
    text = render(TraceEvent(0, 1, kind, title, body))
    text.encode()
    lines = text.split("\n")[:-1]
    assert len(lines) >= 1
    assert all(line.startswith("    ") for line in lines[1:])
