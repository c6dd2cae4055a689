"""Evaluating a run's final model again: what would be measured, what stands in the way, and the steps that do it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ptb_tui.content.items import item_problems
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import Protocol, load_protocol
from ptb_tui.content.tasks import Task, load_task
from ptb_tui.core.action import Evaluate, Receipt, RunRef
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import NotAllowed, PtbError, StepError
from ptb_tui.core.evaluating import EvaluationQuery, EvaluationView, Measurement
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.spec import Problem, RunSpec
from ptb_tui.evaluation import validity
from ptb_tui.evaluation.record import folders, unfinished
from ptb_tui.evaluation.seeds import seeds_of
from ptb_tui.run import sandboxes, submit
from ptb_tui.run.graders import with_endpoint
from ptb_tui.run.steps import same_benchmark
from ptb_tui.run.steps.evaluate import asked_of
from ptb_tui.run.steps.phases import phases_of

if TYPE_CHECKING:
    from ptb_tui.results.records import RunRecord
    from ptb_tui.site.local import LocalSite


def _step(asked: Measurement) -> dict[str, object]:
    """The part of a `step.json` that says how to measure."""
    limit = {} if asked.limit is None else {"limit": asked.limit}
    return {"seeds": asked.seeds, "replace": asked.replace, **limit}


def _hopeless(spec: RunSpec, content: Content, protocol: Protocol, task: Task) -> list[Problem]:
    """Why an evaluation could come to no result anywhere: items that are missing, or not what the run is of."""
    if found := item_problems(task):
        return found
    try:
        same_benchmark(spec, content, protocol, task)
    except StepError as error:
        return [Problem(words=error.message, remedy="bring that content back, or `ptb-tui retry` for a new run")]
    return []


def _problems(site: LocalSite, spec: RunSpec, content: Content, task: Task, model: Path) -> list[Problem]:
    """What else stands in the way of a score here. A model that is no use is a result, too."""
    there = model.is_dir() and not model.is_symlink()
    checked = validity.check(model) if there else validity.Validity("there is no final_model")
    found = [] if checked.ok else [Problem(words=checked.problem, remedy="nothing: the base score is used")]
    try:
        phases_of(task, with_endpoint(site.settings.values, spec.endpoints))
        sandboxes.for_run(site.root, spec, content, site.config.sandbox, role="evaluation")
    except PtbError as error:
        found.append(Problem(words=error.message, remedy=error.hint))
    return found


def view(site: LocalSite, run: RunFiles, spec: RunSpec, content: Content, asked: Measurement) -> EvaluationView:
    """What evaluating would do. PtbError for content or numbers that are no use."""
    run_dir = run.run_dir
    model = run_dir / "final_model"
    task = load_task(content, spec.benchmark, data_store(site.root.path))
    protocol = load_protocol(content, spec.protocol.name)
    chosen = asked_of(_step(asked), task, protocol, model)
    left = unfinished(run_dir, {"seeds": list(chosen.seeds), "limit": chosen.limit, "whole": chosen.whole})
    scored = (run_dir / "metrics.json").exists()
    why = ""
    if not chosen.whole:
        why = "in part: not the seeds and items of the protocol, so the run's score is not touched"
    elif scored and not asked.replace:
        why = "the run has a score, which stays; --replace gives it the new one"
    return EvaluationView(
        run=spec.id,
        method=spec.method,
        run_name=spec.run,
        task=task.name,
        seeds=chosen.seeds,
        greedy=not asked.seeds and len(chosen.seeds) < len(seeds_of(protocol, task)),
        limit=chosen.limit,
        n=asked.n,
        ladder=tuple((rung.max_tokens, rung.tries) for rung in task.file.final.ladder),
        limit_s=submit.evaluate_steps(spec, content, "", asked)[0].limit_s,
        output=left[0].name
        if left
        else f"evaluation_{len(folders(run_dir)) + 1}"
        if folders(run_dir)
        else "evaluation",
        goes_on=left is not None,
        known=left[1] if left else (),
        score=not why,
        why=why,
        problems=(*_problems(site, spec, content, task, model), *_hopeless(spec, content, protocol, task)),
    )


def answer(site: LocalSite, query: EvaluationQuery) -> EvaluationView:
    """What evaluating would do, for a person who wants to know first."""
    from ptb_tui.site.actions import Doer

    doer = Doer(site)
    _, run, spec = doer.ended_run(query.run, "evaluated", change=False)
    return view(site, run, spec, doer.bundle_content(spec), query.measurement)


def ask(site: LocalSite, record: RunRecord, run: RunFiles, spec: RunSpec, action: Evaluate, token: str) -> Receipt:
    """Add the steps. PtbError when what is asked is no use."""
    from ptb_tui.site.actions import Doer

    content, asked = Doer(site).bundle_content(spec), action.measurement
    task = load_task(content, spec.benchmark, data_store(site.root.path))
    protocol = load_protocol(content, spec.protocol.name)
    chosen = asked_of(_step(asked), task, protocol, run.run_dir / "final_model")
    for problem in _hopeless(spec, content, protocol, task):
        raise NotAllowed(f"run {spec.id} cannot be measured: {problem.words}", hint=problem.remedy)
    steps = submit.evaluate_steps(spec, content, action.operator or site.settings.operator, asked)
    names = submit.add_steps(site.root, run, steps, record.id, token)
    words = f"asked for {', '.join(names)}"
    if not chosen.whole:
        words += "; in part, so the run's score is not touched"
    elif (run.run_dir / "metrics.json").exists() and not asked.replace:
        words += "; the run has a score, which stays (--replace gives it the new one)"
    ref = RunRef(id=record.id, method=spec.method, run=spec.run, created=False)
    return Receipt(action="evaluate", words=words, runs=(ref,))
