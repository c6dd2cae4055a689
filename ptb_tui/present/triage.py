"""What needs a person, dearest first."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ptb_tui.present import numbers

if TYPE_CHECKING:
    from ptb_tui.core.triage import Finding, TriageView
    from ptb_tui.present.output import Output

_TITLES = {
    "idle": ("A GPU idles, or a model may be lost", "red"),
    "limit": ("A limit or a login stops runs", "yellow"),
    "queue": ("Runs that say nothing about their agent", "yellow"),
    "grade": ("A score or a verdict is missing", "magenta"),
    "note": ("Worth knowing", "grey"),
}


def _subject(finding: Finding) -> str:
    if finding.run is None and not finding.method:
        return "this site"
    run = str(finding.run) if finding.run is not None else "no run"
    return "  ".join(part for part in (run, finding.method, finding.benchmark, finding.model) if part)


def findings(out: Output, view: TriageView) -> None:
    """Every finding with its evidence and what to do; what could not be read goes to stderr."""
    for problem in view.problems:
        out.note(problem)
    if not view.findings:
        out.line(f"nothing needs you: looked at {numbers.count(view.looked, 'run')}", "green")
        return
    for cost, group in groupby(view.findings, key=lambda finding: finding.cost):
        found = list(group)
        title, colour = _TITLES[cost]
        out.line(f"{title}: {len(found)}", "bold")
        for finding in found:
            out.line(f"{_subject(finding)}   {finding.why}{' (a hint)' if finding.hint else ''}", colour, indent=2)
            if finding.resets:
                out.line(f"until     {finding.resets}", indent=6)
            if finding.evidence:
                out.line(f"seen in   {finding.evidence}", "grey", indent=6)
            if finding.next:
                out.line(f"do        {finding.next}", indent=6)
    out.line(f"{numbers.count(len(view.findings), 'finding')} in {numbers.count(view.looked, 'run')}", "bold")
