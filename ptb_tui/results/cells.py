"""One cell of a board: which run stands for it, and what the cell then shows (design §5, E §5.2). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from pydantic_core import from_json

from ptb_tui.core import names
from ptb_tui.core.scores import CellScore, Worth
from ptb_tui.core.verdict import VerdictState
from ptb_tui.results.policies import POLICIES, choose, stands
from ptb_tui.results.records import Assessment, RunRecord
from ptb_tui.results.verdicts import LOOKUP_SINCE, JudgePolicy, as_upstream, original_policies, under
from ptb_tui.results.worth import used_value, worth

__all__ = ["POLICIES", "assess", "cell", "choose", "same_model", "stands", "withheld"]

ABSENT = frozenset((VerdictState.MISSING.value, VerdictState.TIMED_OUT.value))  # no file that the original would see
# What is said of a cell that no run stands for: the first of these that some run of it has.
_UNSETTLED = (
    Worth.RUNNING, Worth.QUARANTINED, Worth.UNJUDGED, Worth.GRADING_INCOMPLETE, Worth.FAILED, Worth.VOID,
)  # fmt: skip


def same_model(record_model: str, protocol_model: str) -> bool:
    """Whether a run's base model is the protocol's; directory names lose where the organisation ends (H §1.2)."""
    return names.safe(record_model) == names.safe(protocol_model)


def same_short_model(record_model: str, protocol_model: str) -> bool:
    """The original's comparison: the organisation is ignored (E §5.2)."""
    return record_model.rpartition("/")[2] == protocol_model.rpartition("/")[2]


def assess(record: RunRecord, judges: Sequence[JudgePolicy] | None, policy: str = "finished") -> Assessment:
    """The worth of a run. Runs of others are held to the judges of the board's protocol, ours to their own spec; under
    `upstream` runs of others are held to what the original asks of a run of that id (E §5.3)."""
    if policy == "upstream":
        if VerdictState.CONTRADICTORY not in record.verdicts_text:
            return record.assessment
        facts = record.facts
        facts = facts.model_copy(update={"verdicts": as_upstream(facts.verdicts)})
        return worth(facts, active=record.active, words=record.assessment.reason)
    if not record.foreign or judges is None:
        return record.assessment
    if record.assessment.worth == Worth.SCORED and _as_original(tuple(judges), record.id >= LOOKUP_SINCE):
        return record.assessment  # the common case, without building the facts anew
    facts = record.facts
    facts = facts.model_copy(update={"verdicts": under(facts.verdicts, judges)})
    return worth(facts, active=record.active, words=record.assessment.reason)


@cache
def _as_original(judges: tuple[JudgePolicy, ...], lookup: bool) -> bool:
    """Whether these judges need what the original asks of a run, and to the same effect."""

    def asked(policies: Sequence[JudgePolicy]) -> dict[str, str]:
        return {policy.judge: policy.effect for policy in policies if policy.needed}

    return asked(judges) == asked(original_policies(LOOKUP_SINCE if lookup else 1))


def withheld(found: CellScore) -> bool:
    """Whether the original would write no table for the method because of this cell: a scored run lacks a verdict that
    is required (E §5.2, §5.3). A verdict that cannot be read is a broken run there, not a missing one."""
    judged = found.worth in (
        Worth.UNJUDGED,
        Worth.FLAGGED,
    )  # a flag of one judge does not stand for the word of another
    return judged and found.raw is not None and not ABSENT.isdisjoint(found.verdicts.values()) and not _broken(found)


def _broken(found: CellScore) -> bool:
    """Whether the original calls the run broken: it was not measured, or a verdict cannot be read (E §5.2)."""
    return found.raw is None or VerdictState.UNREADABLE in found.verdicts.values()


def _upstream_value(found: CellScore, baseline: float | None) -> dict[str, Any]:
    """What the original makes of a cell: the base score for everything that is not a clean, measured run."""
    changes: dict[str, Any] = {}
    if _broken(found):
        changes["letters"] = ""
    if found.used is None and found.worth is not Worth.QUARANTINED and not withheld(found):
        changes["used"] = baseline
        changes["reason"] = f"{found.reason}; base score, as the original takes it" if found.reason else ""
    return changes


def cell(
    method: str,
    benchmark: str,
    model: str,
    records: Iterable[RunRecord],
    *,
    baseline: float | None,
    judges: Sequence[JudgePolicy] | None = None,
    policy: str = "finished",
) -> CellScore:
    """One cell from all its runs."""
    runs = sorted(records, key=lambda record: record.id)
    chosen, by = choose(runs, policy)
    if chosen is None:
        found = _without_run(method, benchmark, model, runs)
    else:
        found = _of_run(method, benchmark, model, chosen, by, runs, baseline, judges, policy)
    if policy == "upstream" and (changes := _upstream_value(found, baseline)):
        return found.model_copy(update=changes)
    return found


def _of_run(
    method: str,
    benchmark: str,
    model: str,
    chosen: RunRecord,
    by: str,
    runs: Sequence[RunRecord],
    baseline: float | None,
    judges: Sequence[JudgePolicy] | None,
    policy: str,
) -> CellScore:
    assessment, facts = assess(chosen, judges, policy), chosen.values
    reason = assessment.reason
    if assessment.policy == "baseline" and baseline is None:
        reason = f"{reason}; the protocol has no base score of {model} on {benchmark}"
    if by == "pin":
        reason = f"{reason}; pinned: {facts['pin']}".removeprefix("; ")
    verdicts = from_json(chosen.verdicts_text)
    asked = [verdict for verdict in verdicts if policy != "upstream" or verdict.get("required")]
    return CellScore(
        method=method,
        benchmark=benchmark,
        model=model,
        worth=Worth(assessment.worth),
        run_id=chosen.id,
        run=chosen.relative,
        by=by,
        raw=facts.get("accuracy"),
        stderr=facts.get("stderr"),
        seeds=tuple(facts.get("seeds") or ()),
        used=used_value(assessment, facts.get("accuracy"), baseline),
        letters=assessment.letters,
        flagged=tuple(flag for verdict in verdicts for flag in verdict.get("flagged", ())),
        reason=reason,
        evidence=assessment.evidence,
        verdicts={verdict["judge"]: verdict["state"] for verdict in asked},
        opinions={item["judge"]: said for item in verdicts if len(said := tuple(item.get("opinions") or ())) > 1},
        seconds=facts.get("seconds"),
        origin=chosen.origin,
        fingerprint=chosen.fingerprint,
        cli_version=str(facts.get("cli_version") or ""),
        other_runs=tuple(record.id for record in runs if record is not chosen),
    )


def _without_run(method: str, benchmark: str, model: str, runs: Sequence[RunRecord]) -> CellScore:
    kind, reason = Worth.MISSING, "no run"
    for word in _UNSETTLED:
        found = [record for record in runs if record.assessment.worth == word]
        if found:
            kind, reason = word, f"run {found[-1].id}: {found[-1].assessment.reason}"
            break
    else:
        if runs:
            reason = f"run {runs[-1].id}: {runs[-1].assessment.reason}"
    return CellScore(
        method=method,
        benchmark=benchmark,
        model=model,
        worth=kind,
        reason=reason,
        other_runs=tuple(record.id for record in runs),
    )
