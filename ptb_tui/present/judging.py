"""What asking the judges of a run again would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.core.panel import in_words

if TYPE_CHECKING:
    from ptb_tui.core.judging import JudgingView
    from ptb_tui.present.output import Output

_COLOURS = {"ask": "green", "skip": "grey", "blocked": "red"}


def plan(out: Output, view: JudgingView) -> None:
    """Each judge of one run: who would be asked, what is left out and why; then what stands in the way."""
    out.line("  ".join(part for part in (f"run {view.run}", view.method, view.run_name) if part), "bold")
    for line in view.lines:
        asked = in_words([line.seats[vote - 1] for vote in line.votes])
        votes = f" (vote {', '.join(map(str, line.votes))} of {line.wanted})" if line.wanted > 1 and line.votes else ""
        words = line.why if line.action == "skip" else f"{asked}{votes}{f'; {line.why}' if line.why else ''}"
        out.line(f"{line.action:8}{line.judge}: {words}", _COLOURS[line.action], indent=2)
    if view.place:
        out.line(f"verdicts go to {view.place}", indent=2)
    for problem in view.problems:
        mark = "✗" if problem.blocks else "!"
        out.note(f"{mark} {problem.words} → {problem.remedy}")
