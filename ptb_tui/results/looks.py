"""How each kind of rule looks at a run (`on` in `triage.toml`): the place that shows it, or None."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ptb_tui.core.causes import cause as cause_row
from ptb_tui.core.states import State
from ptb_tui.results import evidence
from ptb_tui.results.evidence import Hit
from ptb_tui.results.examined import GOOD, Case
from ptb_tui.results.records import StepRecord
from ptb_tui.results.rules import Rule
from ptb_tui.results.signs import SIGNS
from ptb_tui.traces import endings


def _by_flag(case: Case, rule: Rule) -> Hit | None:
    for step in case.steps(rule):
        for flag in step.flags:
            if flag.startswith(rule.match):
                return Hit(case.place(step), flag if flag not in rule.match else "")
    return None


def _by_state(case: Case, rule: Rule) -> Hit | None:
    for step in case.steps(rule):
        if step.state in rule.match:
            return Hit(case.place(step), step.why)
    return None


def newest_of_kind(steps: Iterable[StepRecord]) -> list[StepRecord]:
    """The last time of each judge and of the evaluation, and the agent."""
    newest: dict[str, StepRecord] = {}
    for step in steps:
        newest[step.name.partition("#")[0]] = step
    return list(newest.values())


def _by_cause(case: Case, rule: Rule) -> Hit | None:
    for step in newest_of_kind(case.steps(rule)):
        if step.ended and step.state != State.DONE and step.cause in rule.match:
            return Hit(case.place(step), step.why or cause_row(step.cause).words)
    return None


def _by_worth(case: Case, rule: Rule) -> Hit | None:
    if case.worth not in rule.match:
        return None
    said = case.record.assessment
    graded = [case.place(step) for step in case.record.steps if step.kind == "evaluate"]
    where = said.evidence[0] if said.evidence else graded[-1] if graded and case.worth == "eval_failed" else ""
    return Hit(where or case.record.relative, said.reason)


def _by_verdict(case: Case, rule: Rule) -> Hit | None:
    if case.record.active or case.worth in ("void", "missing", "running", "failed"):
        return None
    found = [verdict for verdict in case.verdicts if verdict.get("state") in rule.match]
    if not found:
        return None
    said = "; ".join(f"{verdict.get('judge')}: {verdict.get('justification') or verdict.get('state')}"
                     for verdict in found)  # fmt: skip
    return Hit(str(found[0].get("source") or "no verdict file"), said)


def _by_ending(case: Case, rule: Rule) -> Hit | None:
    if case.worth in GOOD or case.ending.get("cause") not in rule.match:
        return None
    event = next((event for event in reversed(case.tail.events) if endings.cause_of(event.data) in rule.match), None)
    return Hit(case.tail.where(event), event.title) if event is not None else None


def _by_event(case: Case, rule: Rule) -> Hit | None:
    return None if case.worth in GOOD else case.tail.find(rule.pattern, tools=rule.tools)


def _by_path(case: Case, rule: Rule) -> Hit | None:
    found = (evidence.exists(case.record.path, name) for name in rule.match)
    return next((hit for hit in found if hit is not None), None)


def _by_file(case: Case, rule: Rule) -> Hit | None:
    for step in case.record.steps:  # our own steps have read their logs already
        if step.kind == "evaluate" and rule.file.startswith("final_eval") and rule.pattern.search(step.why):
            return Hit(case.place(step), step.why)
    return evidence.in_file(case.record.path, rule.file, rule.pattern, rule.part, rule.bytes)


def _by_problem(case: Case, rule: Rule) -> Hit | None:
    found = next((words for words in case.record.problems if words.startswith(rule.match)), None)
    return Hit(found, "") if found is not None else None


def _by_fact(case: Case, rule: Rule) -> Hit | None:
    return next((hit for name in rule.match if (hit := SIGNS[name](case)) is not None), None)


LOOKS: Mapping[str, Callable[[Case, Rule], Hit | None]] = {
    "flag": _by_flag, "state": _by_state, "cause": _by_cause, "worth": _by_worth, "verdict": _by_verdict,
    "ending": _by_ending, "event": _by_event, "path": _by_path, "file": _by_file, "problem": _by_problem,
    "fact": _by_fact,
}  # fmt: skip
