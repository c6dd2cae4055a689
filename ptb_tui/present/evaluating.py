"""What an evaluation would do, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.present import numbers

if TYPE_CHECKING:
    from ptb_tui.core.evaluating import EvaluationView
    from ptb_tui.present.output import Output


def evaluation(out: Output, view: EvaluationView) -> None:
    """Some lines about one run, and what stands in the way."""
    times = f", {view.n} times" if view.n > 1 else ""
    out.line(f"Run {view.run}   {view.method} · {view.run_name}{times}", "bold")
    greedy = " (the model decodes greedily, one seed is enough)" if view.greedy else ""
    out.line(f"Seeds     {', '.join(map(str, view.seeds))}{greedy}")
    out.line(f"Items     {'all' if view.limit < 0 else f'the first {view.limit}'} of {view.task}")
    stages = ", ".join(f"{tries} × {tokens or 'default'}" for tokens, tries in view.ladder)
    out.line(f"Attempts  at most {stages} tokens a seed; {numbers.duration(view.limit_s)} in all")
    known = f", whose seeds {', '.join(map(str, view.known))} are kept" if view.known else ""
    goes_on = f" (goes on with what was cut off{known}, if model and content are the same)" if view.goes_on else ""
    out.line(f"Folder    {view.output}{goes_on}")
    out.line(f"Score     {'the run gets it' if view.score else view.why}")
    for problem in view.problems:
        out.line(f"{'blocked' if problem.blocks else 'note':<10}{problem.words}", "red" if problem.blocks else "")
        if problem.remedy:
            out.line(f"{'':<10}{problem.remedy}")
