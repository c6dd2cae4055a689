"""Which run stands for a cell, and what the cell then shows (design §5, E §5.2). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptb_tui.core import names
from ptb_tui.core.scores import CellScore, Worth
from ptb_tui.results.records import Assessment, RunRecord
from ptb_tui.results.verdicts import JudgePolicy, under
from ptb_tui.results.worth import used_value, worth

POLICIES = ("finished", "upstream")
# What is said of a cell that no run stands for: the first of these that some run of it has.
_UNSETTLED = (
    Worth.RUNNING, Worth.QUARANTINED, Worth.UNJUDGED, Worth.GRADING_INCOMPLETE, Worth.FAILED, Worth.VOID,
)  # fmt: skip


def same_model(record_model: str, protocol_model: str) -> bool:
    """Whether a run's base model is the protocol's; directory names lose where the organisation ends (H §1.2)."""
    return names.safe(record_model) == names.safe(protocol_model)


def stands(record: RunRecord) -> bool:
    """Whether a run may stand for its cell under `finished`: its agent ended, that counts, and nobody voided it."""
    return record.place == "run" and bool(record.values.get("agent_done")) and not record.values.get("void")


def choose(records: Sequence[RunRecord], policy: str = "finished") -> RunRecord | None:
    """The run that stands for a cell, of all runs of that cell; None when none does.

    `finished`: the newest by start of the agent among those that `stands`; queued, cancelled, lost, void and
    site-failed runs never displace a result. `upstream`: the highest id among run directories, whatever it holds.
    """
    if policy == "upstream":
        return max((record for record in records if record.place == "run"), key=lambda run: run.id, default=None)
    candidates = [record for record in records if stands(record)]
    return max(candidates, key=lambda run: (run.started or run.created, run.id), default=None)


def assess(record: RunRecord, judges: Sequence[JudgePolicy] | None) -> Assessment:
    """The worth of a run. Runs of others are held to the judges of the board's protocol, ours to their own spec."""
    if not record.foreign or judges is None:
        return record.assessment
    facts = record.facts
    facts = facts.model_copy(update={"verdicts": under(facts.verdicts, judges)})
    return worth(facts, active=record.active, words=record.assessment.reason)


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
    chosen = choose(runs, policy)
    if chosen is None:
        return _without_run(method, benchmark, model, runs)
    assessment = assess(chosen, judges)
    facts = chosen.values
    used = used_value(assessment, facts.get("accuracy"), baseline)
    reason = assessment.reason
    if assessment.policy == "baseline" and baseline is None:
        reason = f"{reason}; the protocol has no base score of {model} on {benchmark}"
    return CellScore(
        method=method,
        benchmark=benchmark,
        model=model,
        worth=Worth(assessment.worth),
        run_id=chosen.id,
        run=chosen.relative,
        raw=facts.get("accuracy"),
        stderr=facts.get("stderr"),
        used=used,
        letters=assessment.letters,
        reason=reason,
        evidence=assessment.evidence,
        seconds=facts.get("seconds"),
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
