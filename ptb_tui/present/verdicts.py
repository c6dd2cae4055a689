"""Verdicts of one run side by side, and the queue of those that a person should look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ptb_tui.present import numbers, words
from ptb_tui.present.table import Cell, Table

if TYPE_CHECKING:
    from ptb_tui.core.review import FlaggedView
    from ptb_tui.core.scores import VerdictSummary
    from ptb_tui.present.output import Output

_SHOWN = 5  # pieces of evidence of one verdict
_REASON = 160  # characters of a justification in a table


def look_of(verdict: VerdictSummary) -> words.Look:
    """How a verdict looks; a decision of people and a split vote say so in its word."""
    look = words.verdict(verdict.state)
    more = f" (split {verdict.split})" if verdict.split and verdict.source == "majority" else ""
    return words.Look(look.glyph, look.ascii, look.word + more, look.colour)


def judged_by(verdict: VerdictSummary) -> str:
    """Who gave the verdict that is in force: engine and model, a person, or others' tools."""
    if verdict.review is not None:
        return f"{verdict.review.operator or 'a person'} ({verdict.review.decision})"
    parts = [part for part in (verdict.engine, verdict.model) if part]
    source = verdict.source if verdict.source not in ("none", "inline", "") else ""
    marks = [mark for mark in ("imported" if verdict.imported else "", source) if mark]
    return " ".join((*parts, f"({', '.join(marks)})" if marks else "")).strip()


def votes_of(verdict: VerdictSummary) -> str:
    """How many of the votes that were asked for are there; empty where there is one."""
    return f"{verdict.votes} of {verdict.wanted}" if verdict.wanted > 1 else ""


def side_by_side(out: Output, verdicts: Sequence[VerdictSummary]) -> None:
    """Every judge in one line, then what must be read of each."""
    if not verdicts:
        return
    table = Table(("JUDGE", "VERDICT", "BY", "VOTES", "COST", "WHY"), right=frozenset({4}), rigid=frozenset({1, 3, 4}))
    for verdict in verdicts:
        look = look_of(verdict)
        flags = f": {', '.join(verdict.flagged)}" if verdict.flagged else ""
        why = verdict.justification if verdict.justification != "no verdict" else ""
        cost = numbers.money(verdict.cost_usd) if verdict.cost_usd is not None else ""
        table.add(
            words.step("judge:" + verdict.judge),
            Cell(look.text(ascii_only=out.ascii_only) + flags, look.colour),
            judged_by(verdict),
            votes_of(verdict),
            cost,
            why if len(why) <= _REASON else why[: _REASON - 1] + "…",
        )
    out.table(table, indent=2)
    for verdict in verdicts:
        _details(out, verdict)
    out.line()


def _details(out: Output, verdict: VerdictSummary) -> None:
    lines = notes_of(verdict)
    long = len(verdict.justification) > _REASON
    if not lines and not verdict.evidence and not long:
        return
    out.line(words.step("judge:" + verdict.judge), "bold", indent=2)
    if long:
        out.line(verdict.justification, indent=4)
    for text, colour in lines:
        out.line(text, colour, indent=4)
    _evidence(out, verdict, 4)


def notes_of(verdict: VerdictSummary) -> list[tuple[str, str]]:
    """What else must be seen of a verdict, as (text, colour)."""
    notes: list[tuple[str, str]] = []
    if verdict.review is not None:
        review = verdict.review
        field = f" {review.field}" if review.field else ""
        notes.append((f"{review.decision}{field} by {review.operator}, {review.when}: {review.reason}", "cyan"))
    if verdict.state not in ("clean", "flagged", "missing") and verdict.reason != verdict.justification:
        notes.append((verdict.reason, "yellow"))
    if verdict.changed:
        notes.append((f"the verdict changed: it {verdict.changed}", "yellow"))
    if verdict.hint:
        notes.append((f"read this one: {verdict.hint}", "yellow"))
    if verdict.wanted > 1 and 0 < verdict.votes < verdict.wanted and verdict.review is None:
        notes.append((f"{verdict.votes} of {verdict.wanted} votes are there: no majority, the first counts", "yellow"))
    if verdict.extras:
        notes.append((f"valid, with extras: {', '.join(verdict.extras)}", "grey"))
    if verdict.calibration is not None:
        colour = {"measured": "grey", "stale": "yellow", "none": "grey"}[verdict.calibration.state]
        notes.append((verdict.calibration.words, colour))
    if verdict.later:
        notes.append((f"a later attempt gave none: {verdict.later}", "yellow"))
    return [(text, colour) for text, colour in notes if text]


def _evidence(out: Output, verdict: VerdictSummary, indent: int) -> None:
    for piece in verdict.evidence[:_SHOWN]:
        out.line(f"- {piece}", indent=indent)
    if len(verdict.evidence) > _SHOWN:
        out.line(f"- and {len(verdict.evidence) - _SHOWN} more", indent=indent)


def flagged(out: Output, view: FlaggedView) -> None:
    """The queue, each verdict with its evidence and the commands that decide it; problems go to stderr."""
    for problem in view.problems:
        out.note(problem)
    for item in view.verdicts:
        verdict, look = item.verdict, words.verdict(item.verdict.state)
        flags = f": {', '.join(verdict.flagged)}" if verdict.flagged else ""
        subject = "  ".join(part for part in (str(item.run), item.method, item.benchmark, item.model) if part)
        out.line(f"{subject}   {words.step('judge:' + verdict.judge)}", "bold")
        worth = f"   the run is {words.worth(item.worth).word}" if item.worth else ""
        out.line(f"{look.text(ascii_only=out.ascii_only)}{flags}{worth}", look.colour, indent=2)
        if item.why != verdict.state:
            out.line(item.why, indent=4)
        if verdict.justification and verdict.justification not in item.why:
            out.line(verdict.justification, indent=4)
        for text, colour in notes_of(verdict):
            if text not in item.why and item.why not in text:
                out.line(text, colour, indent=4)
        _evidence(out, verdict, 4)
        by = ", ".join(part for part in (judged_by(verdict), votes_of(verdict)) if part)
        out.line("  ".join(part for part in (by, item.place) if part), "grey", indent=4)
        for command in item.next:
            out.line(f"do  {command}", indent=4)
    decided = f", {view.decided} decided by people" if view.decided else ""
    if view.left_off:
        out.note(f"{view.left_off} more are not shown: --judge J shows those of one judge")
    out.line(f"{numbers.count(len(view.verdicts), 'verdict')} in {numbers.count(view.looked, 'run')}{decided}", "bold")
