"""The work `judging`: ask the judges of a run that is not written to, one vote after the other (design §5).

    <results>/_ptb/overlay/<method>/<run>/.ptb/steps/NNN-judge-<judge>-<n>/   step.json  judged.json  result.json  …
                                          .ptb/verdicts/<judge>/              and the public files beside `.ptb`

The program is that of the step `judge`; evidence is bound from the run's own directory, which may be read alone.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ptb_tui.content.lookup import Content
from ptb_tui.core import clock, files
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import Root, RunFiles, StepName
from ptb_tui.core.spec import RunSpec
from ptb_tui.core.step import StepSpec
from ptb_tui.run import judges, locks, place, processes
from ptb_tui.run.erasing import erase
from ptb_tui.run.steps import conclude
from ptb_tui.run.steps import judge as step_judge
from ptb_tui.run.steps.judge import Elsewhere
from ptb_tui.run.work import Report


def _folder(run: RunFiles, step: StepSpec, elsewhere: Elsewhere) -> Path:
    """A new folder for the step, with what was asked."""
    run.steps.mkdir(parents=True, exist_ok=True)
    there = run.step_folders()
    n = 1 + max((name.n for _, name, _ in there if name.judge == step.judge), default=0)
    number = 1 + max((number for number, _, _ in there), default=0)
    folder = run.steps / StepName("judge", step.judge, n).folder(number)
    folder.mkdir()
    step = step.model_copy(update={"n": n, "created": clock.utc_text()})
    files.replace(folder / "step.json", files.dump(step.model_dump(mode="json")))
    about = {"v": 1, "tree": str(elsewhere.tree), "spec": elsewhere.spec.to_file()}
    files.replace(folder / "judged.json", files.dump(about))
    return folder


def _vote(step: StepSpec) -> str:
    return f"{step.judge}, {step.seat.words if step.seat else step.engine}" + (
        f", vote {step.vote} of {step.votes}" if step.votes > 1 else ""
    )


@contextlib.contextmanager
def _alone(root: Root, report: Report) -> Iterator[None]:
    """One run at a time: any number may be asked for at once, and all of them need the same login and machine."""
    lock = locks.state_folder(root) / "judging-aside.lock"
    if locks.busy(lock):
        report.now("waits for judges of another run", force=True)
    with locks.waited(lock):
        yield


def judge(request: Mapping[str, Any], report: Report) -> str:
    """Request: root, content, tree (the run's directory), ptb (our folder of it in the overlay), spec, agent_seconds,
    steps (each as its `step.json`, in order). StepError with what the next vote would meet as well."""
    given = place.step_environment("")  # as in a step: nothing of a shell decides how an endpoint is asked
    os.environ.clear()
    os.environ.update(given)
    processes.become_subreaper()
    root, run = Root(Path(str(request["root"]))), RunFiles(Path(str(request["ptb"])))
    content = Content(tuple(Path(str(path)) for path in request["content"]))
    elsewhere = Elsewhere(Path(str(request["tree"])), RunSpec.model_validate(request["spec"]), request["agent_seconds"])
    steps = [StepSpec.model_validate(step) for step in request["steps"]]
    base = place.scratch_base(root)
    base.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="ptb-judging-", dir=base))
    failed = 0
    try:
        with _alone(root, report):
            for number, step in enumerate(steps, 1):
                report.now(f"{number} of {len(steps)}  {_vote(step)}", force=True)
                folder, at = _folder(run, step, elsewhere), scratch / str(number)
                at.mkdir(mode=0o700)
                conclude(folder, partial(step_judge.work, run.ptb, folder, at, content, root, elsewhere))
                for pid in processes.descendants(os.getpid()):
                    processes.send(pid, 9)
                erase(at)
                failed += _say(folder, step, report)
    finally:
        erase(scratch)
    found = len(steps) - failed
    words = f"{found} verdict{'s' * (found != 1)} in {run.run_dir}"
    return f"{words}; {failed} asked without one, the log says why" if failed else words


def _say(folder: Path, step: StepSpec, report: Report) -> bool:
    """Whether the vote is missing. StepError for what would stop the others too."""
    result = files.read_object(folder / "result.json") or {}
    cause, why = str(result.get("cause") or ""), str(result.get("why") or "")
    if cause in judges.HOPELESS:
        raise StepError(f"{_vote(step)}: {why}", cause=cause, hint="the same with --skip-existing goes on from there")
    flagged = ", ".join(str(flag) for flag in result.get("flagged") or ())
    said = f"no verdict: {why or cause}" if cause else f"flagged: {flagged}" if flagged else "clean"
    report.line(f"{_vote(step)}: {said}")
    return bool(cause)
