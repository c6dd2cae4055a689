"""Which verdicts a person should look at, and why (E §5.9). Pure: works on records alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from ptb_tui.core.review import FlaggedVerdict, FlaggedView
from ptb_tui.core.scores import VerdictSummary
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import VerdictState
from ptb_tui.results.records import RunRecord

_ORDER = ("contradictory", "unreadable", "split", "flagged", "hint", "timed_out", "missing", "decided")
_BY_PEOPLE = ("review", "manual")
MOST = 500  # verdicts in one answer, which goes over a link
_EVIDENCE, _REASON = 5, 600  # pieces and characters of each


def names(word: str, judge: tuple[str, str]) -> bool:
    """Whether a word names a judge, given as (folder, output id)."""
    return word in (*judge, judge[0].removesuffix("_judge"))


def judges_of(record: RunRecord) -> Iterator[tuple[str, str]]:
    """(folder, output id) of the judges of a run."""
    for verdict in json.loads(record.verdicts_text):
        yield verdict["judge"], verdict["output_id"]


def kind_of(verdict: VerdictSummary) -> str:
    """Why a verdict is looked at, a word of the order; empty for one that needs nobody."""
    if verdict.source in _BY_PEOPLE and verdict.state in (VerdictState.CLEAN, VerdictState.FLAGGED):
        return "decided"
    if verdict.state in (VerdictState.CONTRADICTORY, VerdictState.UNREADABLE, VerdictState.TIMED_OUT):
        return verdict.state.value
    if verdict.state is VerdictState.MISSING:
        return "missing" if verdict.required else ""
    if verdict.split:
        return "split"
    if verdict.state is VerdictState.FLAGGED:
        return "flagged"
    return "hint" if verdict.hint else ""


def _why(kind: str, verdict: VerdictSummary) -> str:
    if kind == "decided":
        return f"decided by {verdict.review.operator or 'a person' if verdict.review else 'a manual file'}"
    if kind == "split":
        return f"split {verdict.split}, {verdict.state.value}"
    if kind == "hint":
        return f"read this one: {verdict.hint}"
    words = kind.replace("_", " ")
    return f"{words}: {verdict.reason}" if verdict.reason and kind not in ("flagged", "missing") else words


def _next(kind: str, record: RunRecord, verdict: VerdictSummary) -> tuple[str, ...]:
    run, judge = record.id, verdict.judge
    again = f"ptb-tui judge {run} --judges {judge}"
    decide = f'ptb-tui review {run} {judge} clear --reason "…"'
    keep = f'ptb-tui review {run} {judge} confirm --reason "…"'
    if kind in ("unreadable", "timed_out", "missing"):
        return (again, decide)
    if verdict.state is VerdictState.FLAGGED:
        return (keep, decide)
    down = [flag for flag in verdict.flags if flag not in verdict.flagged]
    named = next((flag for flag in down if flag in verdict.reason), down[0] if down else "")
    field = f" --field {named}" if len(verdict.flags) > 1 and named else ""
    return (keep, decide.replace("clear", f"flag{field}"))


def queue(records: Iterable[RunRecord], judges: Sequence[str] = (), *, everything: bool = False) -> FlaggedView:
    """The verdicts to look at, of all runs with a directory. `everything`: see `core.review.FlaggedQuery`."""
    found: list[tuple[int, int, FlaggedVerdict]] = []
    looked = decided = 0
    for number, record in enumerate(records):
        if record.place != "run" or (record.values.get("void") and not everything):
            continue
        looked += 1
        for given in json.loads(record.verdicts_text):
            verdict = VerdictSummary.model_validate(given)
            if judges and not any(names(word, (verdict.judge, verdict.output_id)) for word in judges):
                continue
            kind = kind_of(verdict)
            decided += kind == "decided"
            if not kind or (kind in ("decided", "timed_out", "missing") and not everything):
                continue
            item = FlaggedVerdict(
                run=record.id,
                method=record.method,
                benchmark=record.benchmark,
                model=record.model,
                path=record.relative,
                worth=record.assessment.worth,
                why=_why(kind, verdict),
                place=verdict.file,
                verdict=_short(verdict),
                next=_next(kind, record, verdict),
            )
            found.append((_ORDER.index(kind), number, item))
    found.sort(key=lambda entry: entry[:2])
    items = tuple(item for *_, item in found[:MOST])
    return FlaggedView(verdicts=items, looked=looked, decided=decided, left_off=max(0, len(found) - MOST))


def _short(verdict: VerdictSummary) -> VerdictSummary:
    said = sanitize(verdict.justification, limit=_REASON, newlines=False)
    return verdict.model_copy(update={"evidence": verdict.evidence[:_EVIDENCE], "justification": said})
