"""Asking the judges of a run again: who would be asked, what stands in the way, and the steps that ask (E §4)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ptb_tui.content.agents import Agent, load_agent
from ptb_tui.content.judges import load_judge
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core.action import Judge as Ask
from ptb_tui.core.action import Receipt, RunRef
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import NotAllowed, NotFound, PtbError, StorageError, UsageError
from ptb_tui.core.judging import JudgingLine, JudgingQuery, JudgingView, Request
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.panel import in_words
from ptb_tui.core.spec import JudgePlan, Problem, RunSpec
from ptb_tui.judging.history import publish
from ptb_tui.run import judges, submit
from ptb_tui.run.sources import Look, login
from ptb_tui.site.calibrating import endpoints
from ptb_tui.site.judging_votes import Subject, line_of, meant

if TYPE_CHECKING:
    from ptb_tui.results.records import RunRecord
    from ptb_tui.site.local import LocalSite


def _agent(content: Content, name: str) -> Agent:
    """The agent's folder, or what stands for one that is not here."""
    try:
        return load_agent(content, name)
    except NotFound:
        return Agent(name, Path(), Path(), (), "", trusted=False, label=name, files=(), env={})


def _problems(site: LocalSite, subject: Subject, lines: list[JudgingLine]) -> tuple[Problem, ...]:
    """What stands in the way of those that would be asked. An agent whose folder is gone is no obstacle."""
    asked = tuple(
        JudgePlan(
            judge=line.judge, engine=line.seats[0].engine, votes=len(line.votes),
            seats=tuple(line.seats[vote - 1] for vote in line.votes),
        )
        for line in lines
        if line.action == "ask"
    )  # fmt: skip
    spec = subject.spec.model_copy(update={"judges": asked})
    try:
        task = load_task(subject.content, spec.benchmark, data_store(site.root.path))
        agent = _agent(subject.content, spec.agent)
        look = Look(site.root, spec, agent, task, subject.protocol, subject.content, site.settings)
        return (*judges.problems(look, site.config.sandbox), *login.judge_problems(look))
    except PtbError as error:
        return (Problem(words=error.message, remedy=error.hint),)


def endpoint_of(site: LocalSite) -> str:
    """Where engine `openai_api` asks here, if the site says so."""
    return str(endpoints(site).get(judges.API) or "")


def view(site: LocalSite, subject: Subject, request: Request, bundle: str = "") -> JudgingView:
    """What asking would do."""
    plans = {plan.judge: plan for plan in subject.spec.judges}
    ids = {name: load_judge(subject.content, name).spec.output_id for name in plans}
    wanted = [meant(word, ids) for word in request.judges] or list(plans)
    if not wanted:
        raise NotAllowed(f"run {subject.record.id} was planned without judges")
    url = endpoint_of(site)
    lines = [line_of(subject, plans[name], request, url) for name in dict.fromkeys(wanted)]
    problems = _problems(site, subject, lines) if any(line.action == "ask" for line in lines) else ()
    if any(problem.blocks for problem in problems):
        lines = [line.model_copy(update={"action": "blocked"}) if line.action == "ask" else line for line in lines]
    return JudgingView(
        run=subject.record.id,
        method=subject.record.method,
        run_name=subject.record.run_name,
        bundle=bundle,
        place=str(subject.files.run_dir) if subject.aside else "",
        lines=tuple(lines),
        problems=problems,
    )


def subject_of(
    site: LocalSite,
    record: RunRecord,
    files: RunFiles,
    spec: RunSpec,
    own: Content,
    *,
    fresh: bool,
    today: Content,
    wanted: str = "",
) -> Subject:
    """The run with the content that judges: its own frozen one, or today's. UsageError for another protocol than its
    own, `wanted`."""
    content = today if fresh else own
    if wanted not in ("", spec.protocol.name):
        words = f"run {record.id} is judged by its own protocol, {spec.protocol.name}"
        raise UsageError(words, hint="--protocol is for runs that others made")
    other = fresh or not spec.bundle or own is site.content
    protocol = load_protocol(content, spec.protocol.name)
    return Subject(record, files, spec, content, protocol, other, (files.run_dir,))


def answer(site: LocalSite, query: JudgingQuery) -> JudgingView:
    """What asking would do, for a person who wants to know first."""
    from ptb_tui.site import judging_aside
    from ptb_tui.site.actions import Doer

    doer, record = Doer(site), site.record(query.run)
    if judging_aside.meant(site, record):
        return view(site, judging_aside.subject_of(site, record, query.request, site.content), query.request)
    record, files, spec = doer.ended_run(query.run, "judged", change=False)
    own = doer.bundle_content(spec)
    asked = query.request
    subject = subject_of(site, record, files, spec, own, fresh=asked.fresh, today=site.content, wanted=asked.protocol)
    return view(site, subject, query.request)


def ask(site: LocalSite, subject: Subject, action: Ask, token: str, operator: str, bundle: str) -> Receipt:
    """Ask, and say what was left out. NotAllowed when something stands in the way."""
    run = RunRef(id=subject.record.id, method=subject.record.method, run=subject.record.run_name, created=False)
    found = view(site, subject, action.request, bundle)
    blocking = [problem for problem in found.problems if problem.blocks]
    if blocking:
        raise NotAllowed(f"run {found.run}: {blocking[0].words}", hint=blocking[0].remedy)
    _published(subject, [line.judge for line in found.lines if line.action == "skip"])
    remarks = tuple(f"{problem.words}; {problem.remedy}" for problem in found.problems)
    skipped = [f"{line.judge}: {line.why}" for line in found.lines if line.action == "skip"]
    beside = [line.judge for line in found.asked if line.evidence]
    skipped += [f"of {', '.join(beside)} as evidence beside the verdicts, not instead of them"] if beside else []
    if not found.asked:
        return Receipt(action="judge", words=f"nothing to ask; {'; '.join(skipped)}", runs=(run,), problems=remarks)
    steps, work = submit.judge_steps(subject.spec, found.asked, operator, bundle), None
    said = "; ".join(_said(line) for line in found.asked)
    if subject.aside:
        from ptb_tui.site import judging_aside

        work = judging_aside.begin(site, subject, found, steps, said)
        words = f"asks {said} (work {work}); verdicts go to {found.place}"
    else:
        names = submit.add_steps(site.root, subject.files, steps, found.run, token)
        words = f"asked for {', '.join(names)} ({said})"
    return Receipt(action="judge", words="; ".join([words, *skipped]), runs=(run,), problems=remarks, work=work)


def _published(subject: Subject, names: list[str]) -> None:
    """Public files of verdicts that are said to be there: a crash may have come between a record and its copy."""
    under = subject.record.path if subject.aside else None
    for name in names:
        try:
            publish(subject.files, name, load_judge(subject.content, name).spec.output_id, under=under)
        except OSError as error:
            raise StorageError(f"{subject.files.run_dir} cannot be written: {error.strerror}") from error


def _said(line: JudgingLine) -> str:
    return f"{line.judge}: {in_words([line.seats[vote - 1] for vote in line.votes])}"
