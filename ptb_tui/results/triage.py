"""What is wrong with which run, by the rules of `triage.toml`: facts of ours first, text only where there are none.

Our runs are judged by what the store knows of them. Files are opened for runs that have no result, a bounded part of
each; a word in them counts only where the agent could not have put it, or it is called a hint (cases A11, B04, I07).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ptb_tui.core import clock
from ptb_tui.core.causes import cause as cause_row
from ptb_tui.core.text import sanitize
from ptb_tui.core.triage import COSTS, Finding
from ptb_tui.results.evidence import Hit
from ptb_tui.results.examined import Case
from ptb_tui.results.looks import LOOKS, newest_of_kind
from ptb_tui.results.nodes import bad_nodes
from ptb_tui.results.records import RunRecord
from ptb_tui.results.rules import Rule, rules

LOW_SPACE = 20e9  # bytes below which a run may not find room for its model


def _cause(case: Case, rule: Rule) -> str:
    if rule.on == "cause":
        return next(step.cause for step in newest_of_kind(case.steps(rule)) if step.cause in rule.match)
    return str(case.ending["cause"]) if rule.on == "ending" else rule.cause


def _resets(case: Case, rule: Rule) -> str:
    """When a limit ends, as UTC text; "" when nobody said."""
    if rule.cost != "limit" or rule.on not in ("cause", "ending"):
        return ""
    facts: Mapping[str, Any] = case.ending if rule.on == "ending" else {}
    step = next((step for step in case.record.steps if "resets" in step.facts), None)
    moment = facts.get("resetsAt") if facts else (step.facts["resets"] if step is not None else None)
    return clock.utc_text(moment) if isinstance(moment, int) and 0 < moment < 1 << 36 else ""


def _finding(case: Case, rule: Rule, hit: Hit) -> Finding:
    record, cause = case.record, _cause(case, rule)
    row = cause_row(cause) if cause else None
    command = rule.others if record.foreign else rule.next or (row.next if row is not None else "")
    return Finding(
        cost=rule.cost,
        rule=rule.id,
        cause=cause,
        why=rule.why or (row.words if row is not None else ""),
        run=record.id,
        method=record.method,
        benchmark=record.benchmark,
        model=record.model,
        path=record.relative,
        evidence=sanitize(str(hit), limit=400, newlines=False),
        resets=_resets(case, rule),
        next=command.replace("{run}", str(record.id)).replace("RUN", str(record.id)),
        hint=hit.weak,
    )


def of_run(record: RunRecord, family: str, now: float) -> list[Finding]:
    """Everything that is wrong with one run. Total on any content of its folder."""
    case = Case(record, family, now)
    wanted = [rule for rule in rules() if rule.concerns(foreign=record.foreign, worth=case.worth)]
    found: list[Finding] = []
    for rule in sorted(wanted, key=lambda rule: rule.general):
        known = {finding.cause for finding in found}
        if (rule.general and found) or (rule.on == "event" and rule.cause and rule.cause in known):
            continue  # better known already
        if (hit := LOOKS[rule.on](case, rule)) is not None:
            found.append(_finding(case, rule, hit))
    return found


def newest(records: Iterable[RunRecord]) -> list[RunRecord]:
    """The newest run of each cell; one that never started displaces none, and is shown while it is the newest."""
    best: dict[tuple[str, str, str], RunRecord] = {}
    waiting: dict[tuple[str, str, str], RunRecord] = {}
    for record in records:
        table = waiting if record.place == "never_started" else best
        key = (record.method, record.benchmark, record.model)
        if key not in table or table[key].id < record.id:
            table[key] = record
    left = [record for key, record in waiting.items() if key not in best or best[key].id < record.id]
    return [*best.values(), *left]


def missing(records: Iterable[RunRecord], tasks: Iterable[str], models: Iterable[str]) -> list[Finding]:
    """Cells of the given methods' runs that have none. Tasks and models that are not given are those seen."""
    seen = [record for record in records if record.place != "never_started"]
    have = {(record.method, record.benchmark, record.model) for record in seen}
    rows = sorted({record.method for record in seen})
    named = {record.model.rpartition("/")[2]: record.model for record in seen} | {m.model: m.model for m in seen}
    columns = [(task, named.get(model, model))
               for task in sorted(set(tasks)) or sorted({record.benchmark for record in seen})
               for model in sorted(set(models)) or sorted({record.model for record in seen})]  # fmt: skip
    return [
        Finding(cost="grade", rule="no_run", why="the cell has no run", method=method, benchmark=task, model=model,
                evidence="no folder of that name", next="submit its sweep again: only what is missing is run")
        for method in rows for task, model in columns if (method, task, model) not in have
    ]  # fmt: skip


def of_site(root: Path) -> list[Finding]:
    """What stops every run of a root."""
    try:
        free = shutil.disk_usage(root).free
    except OSError:
        return []
    if free >= LOW_SPACE:
        return []
    return [
        Finding(cost="queue", rule="low_space", cause="disk_full", why="the results file system is nearly full",
                evidence=f"{free / 1e9:.1f} GB free on {root}", next="make room before the next run ends")
    ]  # fmt: skip


def _order(finding: Finding) -> tuple[Any, ...]:
    return (COSTS.index(finding.cost), finding.hint, finding.resets or "~", finding.rule == "no_run",
            -(finding.run or 0), finding.method, finding.benchmark, finding.model)  # fmt: skip


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Dearest first; then facts before hints, limits that end soon, runs before cells without one, newest first."""
    return sorted(findings, key=_order)


def triage(
    records: Iterable[RunRecord], families: Callable[[str], str], *, everything: bool = False, now: float | None = None
) -> list[Finding]:
    """What is wrong with these runs, in order. `families` names the trace family of an agent."""
    moment = time.time() if now is None else now
    chosen = list(records) if everything else newest(records)
    found = [finding for record in chosen for finding in of_run(record, families(record.agent), moment)]
    return ordered([*bad_nodes(found, {record.id: record for record in chosen}), *found])
