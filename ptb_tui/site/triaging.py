"""Triage of a site's runs: which are looked at, and which trace family their agents have."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.core.errors import NotFound, PtbError
from ptb_tui.core.triage import Finding, TriageQuery, TriageView
from ptb_tui.results import triage
from ptb_tui.results.records import RunRecord

if TYPE_CHECKING:
    from ptb_tui.site.local import LocalSite

_REVIEWED = {
    "no_metrics": "POST_TRAIN_BENCH_NO_METRICS_IS_FINE",
    "flagged": "POST_TRAIN_BENCH_CONTAMINATION_CORRECT",
}
_BY_NAME = ("claude", "codex", "cursor", "gemini", "opencode")  # how the original chose (H §3.1)


def guessed_family(agent: str) -> str:
    """The family of an agent that is not in the content, as the original guesses it; `plain` when it cannot."""
    found = [family for family in _BY_NAME if family in agent]
    return found[0] if len(found) == 1 else "plain"


def _short(model: str) -> str:
    return model.rpartition("/")[2]


def _wanted(records: Iterable[RunRecord], query: TriageQuery) -> list[RunRecord]:
    models = {_short(model) for model in query.models}
    return [
        record
        for record in records
        if (not query.agents or {record.agent, record.method} & set(query.agents))
        and (not query.tasks or record.benchmark in query.tasks)
        and (not models or _short(record.model) in models)
    ]


def _reviewed(site: LocalSite, finding: Finding) -> bool:
    """Whether a person said of a run, in the original's way, that this is no trouble (H §6)."""
    listed = site.settings.values.get(_REVIEWED.get(finding.rule, ""), "")
    return finding.path in {"/".join(PurePath(path).parts[-2:]) for path in listed.split(":")}


def family_of(content: Content, agent: str) -> str:
    """The trace family of an agent's folder, or a guess from its name."""
    try:
        return load_agent(content, agent).trace if agent else "plain"
    except (PtbError, OSError):
        return guessed_family(agent)


def _known(site: LocalSite, query: TriageQuery, runs: Iterable[RunRecord]) -> None:
    """NotFound for an agent or a task that nobody knows: a slip of the pen must not read as an all-clear."""
    agents, tasks = set(site.content.names("agents")), set(site.content.names("tasks"))
    methods = set()
    for run in runs:
        agents.add(run.agent)
        tasks.add(run.benchmark)
        methods.add(run.method)
    for what, asked, known, more in (
        ("agent or method", query.agents, agents, methods),
        ("task", query.tasks, tasks, set()),
    ):
        for name in asked:
            if name not in known | more:
                near = get_close_matches(name, [*known, *more], 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(filter(None, known)))}"
                raise NotFound(f"no {what} {name!r}", hint=hint)


def answer(site: LocalSite, query: TriageQuery) -> TriageView:
    """What is wrong here, dearest first. NotFound for an agent or a task that is neither in the content nor a run's."""

    family = cache(lambda agent: family_of(site.content, agent))
    scan = site.scan()
    _known(site, query, scan.runs)
    records = _wanted(scan.runs, query)
    found = [
        finding for finding in triage.triage(records, family, everything=query.all) if not _reviewed(site, finding)
    ]
    if query.agents or query.tasks or query.models:
        rows = _wanted(scan.runs, query.model_copy(update={"tasks": (), "models": ()}))
        found += triage.missing(rows, query.tasks, query.models)
    found = triage.ordered([*triage.of_site(site.root.path), *found])
    looked = len(records if query.all else triage.newest(records))
    return TriageView(findings=tuple(found), looked=looked, problems=scan.problems)
