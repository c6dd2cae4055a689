"""What a run is worth: the table of design §5, computed from facts and never stored.

`worth` is pure. `gather` reads the files of one run.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ptb_tui.core.causes import cause
from ptb_tui.core.scores import RunFacts, VerdictSummary, Worth
from ptb_tui.core.states import State
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import JudgeSpec, VerdictState
from ptb_tui.judging.speech import Layer
from ptb_tui.results.foreign import ForeignFacts, read_foreign
from ptb_tui.results.metrics import read_cli_version, read_metrics, read_time
from ptb_tui.results.records import Assessment, Policy, RunRecord, StepRecord
from ptb_tui.results.verdicts import (
    KNOWN,
    Decision,
    JudgePolicy,
    original_policies,
    read_verdicts,
    spec_policies,
)

LETTERS = (("disallowed_model", "M"), ("contamination", "C"), ("disallowed_api_usage", "A"))  # the order of E §5.4
_FLAG_WORDS = {
    "disallowed_model": "disallowed model",
    "contamination": "contamination",
    "disallowed_api_usage": "use of a hosted model API",
    "disallowed_ptb_lookup": "lookup of the benchmark",
    "general_anomaly": "anomaly",
}
_VERDICT_WORDS = {
    VerdictState.MISSING: "gave no verdict",
    VerdictState.UNREADABLE: "left a verdict that cannot be read",
    VerdictState.TIMED_OUT: "ran out of time",
    VerdictState.CONTRADICTORY: "is contradicted",
}
_REASON = 400  # characters of a judge's words in a reason; the verdict has them all
_DECIDED = (VerdictState.CLEAN, VerdictState.FLAGGED)
_OF_WORTH = {word.value: word for word in (Worth.NO_MODEL, Worth.INVALID_MODEL, Worth.GRADING_INCOMPLETE)}


def letters_of(verdicts: Iterable[VerdictSummary]) -> str:
    """Letters of the flags whose judges have effect `baseline`, in the order M, C, A (E §5.4)."""
    up = {flag for verdict in verdicts if verdict.effect == "baseline" for flag in verdict.flagged}
    return "".join(letter for flag, letter in LETTERS if flag in up)


def counts(name: str, protocol_counts: bool = True) -> bool:
    """Whether a step that ended for this cause still says something about the agent."""
    word = cause(name).counts
    return word == "yes" or (word == "protocol" and protocol_counts)


def _flag_reason(verdict: VerdictSummary) -> str:
    names = " and ".join(_FLAG_WORDS.get(flag, flag.replace("_", " ")) for flag in verdict.flagged)
    names = names or f"flagged by {verdict.judge}"
    why = sanitize(verdict.justification, limit=_REASON, newlines=False)
    return f"{names}: {why}" if why else names


def _undecided_reason(verdicts: Sequence[VerdictSummary]) -> str:
    parts = []
    for verdict in verdicts:
        why = verdict.reason or verdict.justification
        more = f" ({why})" if why and verdict.state != VerdictState.MISSING else ""
        parts.append(f"{verdict.judge} {_VERDICT_WORDS[verdict.state]}{more}")
    person = next((verdict.judge for verdict in verdicts if verdict.state == VerdictState.CONTRADICTORY), "")
    return "; ".join(parts) + (f": `ptb-tui review RUN {person}`" if person else ": `ptb-tui judge RUN`")


def _cause_reason(name: str, why: str = "") -> str:
    row = cause(name)
    said = f"{row.words} ({why})" if why and why != row.words else row.words
    nothing, _, more = row.next.partition("nothing: ")
    if not nothing and more:  # "nothing: a time limit is a result"
        return f"{said}; {more}"
    return f"{said}: {row.next}" if row.next not in ("", "nothing") else said


def _without_score(facts: RunFacts, words: str, why: str) -> tuple[Worth, str]:
    """Worth and reason of a run whose agent ended and which has no measured accuracy."""
    named = _OF_WORTH.get(facts.eval_cause) or _OF_WORTH.get(facts.agent_cause)
    if facts.has_model is False or named is Worth.NO_MODEL:
        return Worth.NO_MODEL, _cause_reason("no_model")
    if named is not None:
        return named, _cause_reason(named.value, why)
    if facts.metrics_problem:
        return Worth.FAILED, f"{facts.metrics_problem}: `ptb-tui eval RUN`"
    if facts.exhausted or (facts.eval_state == State.FAILED and counts(facts.eval_cause or "unknown")):
        return Worth.EVAL_FAILED, _cause_reason("eval_failed", why)
    if facts.eval_state and facts.eval_state != State.DONE:
        name = facts.eval_cause or ("host_lost" if facts.eval_state == State.LOST else "unknown")
        return Worth.FAILED, f"evaluation: {_cause_reason(name, why)}"
    return Worth.MISSING, words or "not evaluated: `ptb-tui eval RUN`"


def worth(facts: RunFacts, *, active: bool = False, words: str = "", why: str = "") -> Assessment:
    """What a run is worth (design §5).

    `active`: a step of the run is still to end; then what is not known yet is no fault. `words`: what else is known of
    a run that has no result; `why`: how the step that decides ended, in the words of whoever ended it. A flag of a
    `baseline` judge stands whatever other `baseline` judges could not say; while a judge that could quarantine has not
    spoken nothing counts.
    """
    verdicts = facts.verdicts
    letters = letters_of(verdicts)
    evidence = tuple(text for verdict in verdicts if verdict.state == VerdictState.FLAGGED for text in verdict.evidence)

    def result(kind: Worth, reason: str, shown: tuple[str, ...] = ()) -> Assessment:
        policy: Policy = "measured" if kind is Worth.SCORED else "baseline" if kind.uses_baseline else "none"
        return Assessment(kind, policy, letters, reason, shown)

    if facts.void:
        return result(Worth.VOID, f"void: {facts.void}")
    if not facts.agent_done:
        if facts.agent_cause:  # what was to follow it may still wait, and has nothing to work on
            return result(Worth.FAILED, _cause_reason(facts.agent_cause, why))
        if active:
            return result(Worth.RUNNING, words or "in progress")
        return result(Worth.MISSING, words or "no result")
    flagged = [verdict for verdict in verdicts if verdict.state == VerdictState.FLAGGED]
    undecided = [verdict for verdict in verdicts if verdict.required and verdict.state not in _DECIDED]
    if active and (facts.accuracy is None or undecided):
        return result(Worth.RUNNING, words or "in progress")
    quarantine = [verdict for verdict in flagged if verdict.effect == "quarantine"]
    if quarantine:
        return result(Worth.QUARANTINED, "; ".join(_flag_reason(verdict) for verdict in quarantine), evidence)
    baseline = [verdict for verdict in flagged if verdict.effect == "baseline"]
    if baseline and not any(verdict.effect == "quarantine" for verdict in undecided):
        return result(Worth.FLAGGED, "; ".join(_flag_reason(verdict) for verdict in baseline), evidence)
    if facts.accuracy is None:
        return result(*_without_score(facts, words, why))
    if undecided:
        return result(Worth.UNJUDGED, _undecided_reason(undecided))
    return result(Worth.SCORED, "")


def used_value(assessment: Assessment, raw: float | None, baseline: float | None) -> float | None:
    """The value that stands for the agent's work: measured, the base model's, or none."""
    return {"measured": raw, "baseline": baseline, "none": None}[assessment.policy]


_CAUSES = {State.FAILED: "unknown", State.CANCELLED: "operator", State.LOST: "host_lost"}


def _cause_of(step: StepRecord | None) -> str:
    """Why a step ended as it did; empty for one that did its work or is still to end."""
    return (step.cause or _CAUSES.get(State(step.state), "")) if step is not None else ""


_NONE_WORDS = frozenset(("", "none", "no_model", "missing", "absent"))


def _model_fact(facts: Mapping[str, object]) -> bool | None:
    """What the harvest said about the final model, under any of the names it may use; None when it said nothing."""
    for name in ("has_model", "final_model", "model"):
        if name in facts:
            value = facts[name]
            if isinstance(value, bool):
                return value
            if isinstance(value, str):
                return value not in _NONE_WORDS
            return bool(value)
    return None


def _has_model(run_dir: Path) -> bool:
    folder = run_dir / "final_model"
    try:
        return stat.S_ISDIR(os.lstat(folder).st_mode) and bool(os.listdir(folder))
    except PermissionError:
        return True
    except OSError:
        return False


def _void_marker(run_dir: Path) -> str:
    """Some tools void a run by renaming its metrics."""
    try:
        names = os.listdir(run_dir)
    except OSError:
        return ""
    marked = sorted(name for name in names if re.fullmatch(r"metrics\.json\.VOID[\w.-]*", name))
    return f"its metrics were set aside as {marked[0]}" if marked and "metrics.json" not in names else ""


def policies_of(record: RunRecord) -> tuple[JudgePolicy, ...]:
    """The judges that count for this run: its spec's, or what the original asks of its own."""
    return original_policies(record.id) if record.foreign else spec_policies(record.spec or {})


def _deciding_evaluation(steps: Sequence[StepRecord]) -> StepRecord | None:
    """The newest evaluation but those in part, with seeds or items of somebody's own: they decide nothing."""
    found = [step for step in steps if step.kind == "evaluate"]
    whole = [step for step in found if step.facts.get("whole") is not False]
    return next(iter(reversed(whole or found)), None)


def gather(
    record: RunRecord,
    *,
    foreign: ForeignFacts | None = None,
    specs: Mapping[str, JudgeSpec] = KNOWN,
    layers: Sequence[Layer] = (),
    decision: Decision | None = None,
) -> RunFacts:
    """Read what decides the worth of a run; total. `layers` are its directories (`overlay`), by default its own."""
    decided = decision or Decision()
    if record.place != "run":
        return RunFacts(run_id=record.id, agent_cause=_cause_of(record.agent_step), void=decided.void)
    metrics, (seconds, time_problem) = read_metrics(record.path), read_time(record.path)
    verdicts = read_verdicts(layers or (Layer.of(record.path),), policies_of(record), specs, decided.verdicts)
    common = {
        "run_id": record.id,
        "accuracy": metrics.accuracy,
        "stderr": metrics.stderr,
        "seeds": metrics.seeds,
        "verdicts": verdicts,
        "void": decided.void or _void_marker(record.path),
        "pin": decided.pin,
        "pinned": decided.pinned,
    }
    if record.foreign:
        found = foreign or read_foreign(record.path)
        exported = record.origin == "harbor" and bool(metrics.error)  # the exporter puts the base score there
        return RunFacts(
            **common,
            metrics_problem="" if exported else metrics.problem,
            has_model=False if exported else found.has_model,
            agent_done=found.ended,
            exhausted=found.exhausted,
            seconds=seconds,
            time_problem=time_problem or ("time_taken.txt is missing" if found.ended and seconds is None else ""),
            cli_version=found.cli_version,
            has_trace="solve_out.txt" in found.files,
        )
    agent = record.agent_step
    # A session that the provider ended never became a step that is done, so it stands for nothing under any protocol.
    done = agent is not None and (
        agent.state == State.DONE or (agent.ended and counts(_cause_of(agent), protocol_counts=False))
    )
    said = _model_fact(agent.facts) if agent else None
    here = _has_model(record.path) if done else None
    newest = _deciding_evaluation(record.steps)
    if time_problem == "" and seconds is None and done:
        seconds = agent.seconds if agent else None
    return RunFacts(
        **common,
        metrics_problem=metrics.problem,
        has_model=said if said is not None else here,
        agent_done=done,
        agent_cause=_cause_of(agent),
        eval_state=newest.state if newest else "",
        eval_cause=_cause_of(newest),
        seconds=seconds,
        time_problem=time_problem,
        cli_version=read_cli_version(record.path),
        has_trace=True,
    )
