"""Submitting: exactly one run per token, whoever asks how often at the same time (local_queue C.6, C.7).

    token claimed?  ── no → id (exclusive mkdir) → queue/<id>/ written aside → token linked → renamed into the queue
                    └ yes → the run that holds it

The link of `_ptb/tokens/<token>` is the commit point. Whoever finds a token whose run is not in the queue yet finishes
the rename for it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Sequence

from ptb_tui.content import fingerprint
from ptb_tui.content.judges import load_judge
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core import clock, files
from ptb_tui.core.action import RunRef
from ptb_tui.core.errors import NotAllowed, TokenConflict
from ptb_tui.core.evaluating import Measurement
from ptb_tui.core.judging import JudgingLine
from ptb_tui.core.layout import Root, RunFiles, allocate_id
from ptb_tui.core.spec import RunSpec, Sweep
from ptb_tui.core.step import After, StepSpec
from ptb_tui.evaluation.seeds import seeds_of
from ptb_tui.run import place
from ptb_tui.run.steps.agent import GRACE_S

AGENT_EXTRA_S = 4 * 3600.0  # prepare and harvest


def planned_steps(spec: RunSpec, content: Content) -> list[StepSpec]:
    """The steps of a new run: agent, judges in order, evaluation. Inline they are one job, else three."""
    own = spec.judges_when == "own"
    task = load_task(content, spec.benchmark)
    final, count = task.file.final, len(seeds_of(load_protocol(content, spec.protocol.name), task))
    evaluation_limit = final.attempt_timeout_s * sum(rung.tries for rung in final.ladder) * count + 600
    wait = (After(steps=("agent",)),)
    common = {"operator": spec.operator, "created": spec.created, "token": spec.token}
    steps = [StepSpec(kind="agent", job=1, limit_s=spec.hours * 3600 + GRACE_S, gpus=spec.gpus, **common)]
    for judge in spec.judges:
        limit = load_judge(content, judge.judge).spec.timeout_s
        for vote, seat in enumerate(judge.asked, 1):
            steps.append(
                StepSpec(
                    kind="judge",
                    judge=judge.judge,
                    n=vote,
                    vote=vote,
                    job=2 if own else 1,
                    limit_s=limit,
                    engine=seat.engine,
                    seat=seat if judge.seats else None,
                    votes=len(judge.asked),
                    wait=wait,
                    **common,
                )
            )
    steps.append(
        StepSpec(
            kind="evaluate", job=3 if own else 1, limit_s=evaluation_limit, gpus=min(1, spec.gpus), wait=wait, **common
        )
    )
    return steps


def write_steps(run: RunFiles, steps: Iterable[StepSpec], first: int = 1) -> list[str]:
    """Write step folders from number `first` on; exclusive, so that two writers never share a number."""
    written = []
    number = first
    for step in steps:
        while True:
            folder = run.steps / step.name.folder(number)
            if any(taken == number for taken, _, _ in run.step_folders()):
                number += 1
                continue
            folder.mkdir(parents=True)
            break
        files.create(folder / "step.json", files.dump(step.model_dump(mode="json")))
        written.append(str(step.name))
        number += 1
    return written


def _finish(root: Root, run_id: int) -> None:
    """Bring a committed run into the queue; whoever comes first does it."""
    aside = root.own("queue") / f".{run_id}"
    if aside.is_dir():
        with contextlib.suppress(OSError):
            os.rename(aside, root.queued(run_id).ptb)


def _keep_print(root: Root, spec: RunSpec, content: Content) -> None:
    """Keep what the run's fingerprint is made of, so that a difference can be named later."""
    if fingerprint.recall(root, spec.protocol.fingerprint) is not None:
        return
    found = fingerprint.take(content, load_protocol(content, spec.protocol.name), spec.prompt)
    if found.fingerprint != spec.protocol.fingerprint:
        raise NotAllowed("the content was changed while it was being submitted", hint="submit again")
    fingerprint.keep(root, found.model_copy(update={"bundle": spec.bundle}))


def submit(root: Root, spec: RunSpec, content: Content) -> RunRef:
    """Submit one run; `content` is its frozen copy. TokenConflict when its token already stands for a run with another
    content, NotAllowed when the copy is not what the spec says."""
    for name in ("tokens", "queue", "live", "never_started"):
        root.own(name).mkdir(parents=True, exist_ok=True)
    token = root.own("tokens") / spec.token
    known = files.read_object(token)
    if known is None:
        _keep_print(root, spec, content)
        run_id = allocate_id(root)
        sealed = spec.sealed(id=run_id, created=clock.utc_text())
        aside = RunFiles(root.own("queue") / f".{run_id}")
        aside.ptb.mkdir()
        files.create(aside.spec, files.dump(sealed.to_file()))
        write_steps(aside, planned_steps(sealed, content))
        commit = {"v": 1, "id": run_id, "digest": sealed.digest, "method": sealed.method, "run": sealed.run}
        if files.create(token, files.dump(commit)):
            _finish(root, run_id)
            return RunRef(id=run_id, method=sealed.method, run=sealed.run, words="submitted")
        shutil.rmtree(aside.ptb, ignore_errors=True)
        known = files.read_object(token) or {}
    run_id = int(known["id"])
    if known.get("digest") != spec.content_digest():
        raise TokenConflict(
            f"{spec.method} / {spec.benchmark} / {spec.base_model} was submitted before as run {run_id} with other"
            " settings",
            hint="give this sweep an `experiment` suffix, or cancel that run first",
        )
    _finish(root, run_id)
    return RunRef(
        id=run_id, method=str(known.get("method", "")), run=str(known.get("run", "")), created=False, words="known"
    )


def keep_sweep(root: Root, sweep: Sweep) -> None:
    """Keep the sweep as an immutable file, so that any console can show and resume it."""
    import tomli_w

    folder = root.own("sweeps")
    folder.mkdir(parents=True, exist_ok=True)
    table = sweep.model_dump(mode="json", exclude_none=True)
    files.create(folder / f"{sweep.digest}.toml", tomli_w.dumps(table))


def add_steps(root: Root, run: RunFiles, steps: Sequence[StepSpec], run_id: int, token: str) -> list[str]:
    """Ask for further steps of a run whose agent ended, once per token; their names. NotAllowed before that."""
    if not run.started:
        raise NotAllowed(f"run {run_id} has not started; there is nothing to judge or evaluate yet")
    existing = run.step_folders()
    jobs = [files.read_object(folder / "step.json") or {} for _, _, folder in existing]
    if token in {step.get("token") for step in jobs}:
        asked = [name for (_, name, _), step in zip(existing, jobs, strict=True) if step.get("token") == token]
        return [str(name) for name in asked]
    job = max((int(step.get("job") or 1) for step in jobs), default=0) + 1
    numbered: list[StepSpec] = []
    for step in steps:
        same = [name.n for _, name, _ in existing if (name.kind, name.judge) == (step.kind, step.judge)]
        mine = [other.n for other in numbered if (other.kind, other.judge) == (step.kind, step.judge)]
        n = max([0, *same, *mine]) + 1
        numbered.append(step.model_copy(update={"job": job, "n": n, "token": token, "created": clock.utc_text()}))
    live = root.live(run_id)
    live.parent.mkdir(parents=True, exist_ok=True)
    written = write_steps(run, numbered, first=max((number for number, _, _ in existing), default=0) + 1)
    files.replace(live, f"{run.ptb.relative_to(root.path)}\n")
    return written


def cancel(root: Root, run_id: int, operator: str, reason: str) -> bool:
    """Ask for a run's end; False when somebody asked before. A queued run leaves the queue at the next dispatch."""
    record = files.dump({"v": 1, "operator": operator, "reason": reason, "t": clock.utc_text()})
    while True:
        try:
            return files.create(place.find(root, run_id).cancel, record)
        except FileNotFoundError:  # it moved from the queue to where it runs just now; NotFound ends this
            continue


def evaluate_steps(spec: RunSpec, content: Content, operator: str, asked: Measurement) -> list[StepSpec]:
    """Further evaluations of a run, one after the other. Other seeds take other time."""
    planned = planned_steps(spec, content)[-1]
    final = load_task(content, spec.benchmark).file.final
    one = final.attempt_timeout_s * sum(rung.tries for rung in final.ladder)
    limit_s = one * len(asked.seeds) + 600 if asked.seeds else planned.limit_s
    more = {"seeds": asked.seeds, "limit": asked.limit, "replace": asked.replace, "limit_s": limit_s}
    return [planned.model_copy(update={"wait": (), "operator": operator, **more})] * asked.n


def judge_steps(spec: RunSpec, lines: Sequence[JudgingLine], operator: str, bundle: str = "") -> list[StepSpec]:
    """Further judge steps, one for each vote that is asked for. `bundle`: a content of its own that judges."""
    return [
        StepSpec(
            kind="judge",
            judge=line.judge,
            n=vote,
            vote=vote,
            limit_s=line.limit_s,
            engine=line.seats[vote - 1].engine,
            seat=line.seats[vote - 1],
            votes=line.wanted,
            evidence=line.evidence,
            operator=operator,
            bundle=bundle,
        )
        for line in lines
        for vote in line.votes
    ]
