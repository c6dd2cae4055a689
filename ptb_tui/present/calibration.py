"""Judges measured on runs with a known truth: what was found, and what measuring would do and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.core.panel import in_words
from ptb_tui.present import numbers
from ptb_tui.present.table import Table

if TYPE_CHECKING:
    from ptb_tui.core.calibration import CalibrationView, FlagMeasure, Measured
    from ptb_tui.present.output import Output


def _interval(found: tuple[float, float] | None) -> str:
    return "" if found is None else f"{found[0] * 100:.0f}–{found[1] * 100:.0f} %"


def _who(row: Measured) -> str:
    return " ".join(part for part in (row.engine, row.model, row.effort) if part)


def measured(out: Output, view: CalibrationView) -> None:
    """Every flag of every judge and model in one line, then what was missed, by name; then what it cost."""
    if not view.measured:
        out.note("nothing was measured here yet: ptb-tui judge calibrate")
        return
    head = ("JUDGE", "BY", "FLAG", "FOUND", "95 %", "FALSE", "95 %", "VOTES AGREE", "COST", "TIME", "WHEN")
    table = Table(head, right=frozenset({3, 5, 7, 8, 9}), rigid=frozenset({3, 4, 5, 6}))
    for row in view.measured:
        for number, flag in enumerate(row.flags):
            first = number == 0
            false = None if flag.specificity is None else (1 - flag.specificity[1], 1 - flag.specificity[0])
            table.add(
                row.judge if first else "",
                _who(row) if first else "",
                flag.flag,
                f"{flag.found}/{flag.guilty}",
                _interval(flag.sensitivity),
                f"{flag.false}/{flag.clean}",
                _interval(false),
                f"{flag.same}/{flag.pairs}" if flag.pairs else "",
                numbers.money(row.cost_usd) if first else "",
                numbers.duration(row.seconds) if first else "",
                row.ended[:16] if first else "",
            )
    out.table(table)
    for row in view.measured:
        _notes(out, row)
    for pair in view.agreements:
        out.line(f"{pair.judge}: {pair.first} and {pair.second} say the same in {pair.same} of {pair.of}")
    out.line(f"answers and what the judges printed: {view.folder}", "grey")


def _notes(out: Output, row: Measured) -> None:
    lines = [line for flag in row.flags for line in _wrong(flag)]
    if row.words_now is False:
        lines.append("the judge has other words today: what was measured does not hold for them")
    if row.outdated:
        lines.append(f"{numbers.count(len(row.outdated), 'case')} changed since: {', '.join(row.outdated)}")
    if row.tokens:
        lines.append(f"{row.answers} answers, {row.tokens:,} tokens")
    if lines:
        out.line(f"{row.judge}, {_who(row)}", "bold")
    for line in lines:
        out.line(line, indent=2)


def _wrong(flag: FlagMeasure) -> list[str]:
    named = (("missed", flag.missed), ("flagged without cause", flag.wrong), ("no verdict", flag.without))
    return [f"{flag.flag} {what}: {', '.join(cases)}" for what, cases in named if cases]


def plan(out: Output, view: CalibrationView) -> None:
    """The cases, who would be asked about how many of them, what that may cost, what stands in the way."""
    if (found := view.plan) is None:
        return
    out.line(f"{numbers.count(len(found.cases), 'case')}, judges of protocol {found.protocol}", "bold")
    cases = Table(("CASE", "WHAT IS TRUE"))
    for name, about in found.cases.items():
        cases.add(name, about)
    out.table(cases, indent=2)
    table = Table(
        ("JUDGE", "BY", "CASES", "VOTES", "TO ASK", "THERE", "TOKENS", "COST", "TIME"), right=frozenset(range(2, 9))
    )
    for line in found.lines:
        table.add(
            line.judge,
            in_words([line.seat]),
            str(len(line.cases)),
            str(line.votes),
            str(line.ask),
            str(line.there),
            "" if line.tokens is None else f"{line.tokens:,}",
            numbers.money(line.cost_usd),
            numbers.duration(line.seconds),
        )
    out.table(table, indent=2)
    costs = [line.cost_usd for line in found.lines]
    known = [cost for cost in costs if cost is not None]
    cost = f"about {numbers.money(sum(known))}" if len(known) == len(costs) else "the cost is not known"
    tokens = sum(line.tokens or 0 for line in found.lines)
    more = f"about {tokens:,} tokens" if tokens else ""
    out.line(", ".join(part for part in (numbers.count(found.ask, "session"), more, cost) if part), "bold")
    for basis in dict.fromkeys(line.basis for line in found.lines if line.ask):
        out.line(f"the estimate: {basis}", "grey", indent=2)
    for problem in found.problems:
        mark = "✗" if problem.blocks else "!"
        out.note(f"{mark} {problem.words} → {problem.remedy}")
