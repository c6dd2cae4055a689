"""The work `calibrate`: ask judges about cases with a known truth, and keep what they say (decision 0020).

Each case becomes a run directory on scratch, and the program of the step `judge` is asked about it: evidence, sandbox,
prompt, engine and validation are those of a run. Nothing of it is among the results; an answer goes to
`_ptb/calibration/` as soon as it is there, so that the same order goes on where another stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ptb_tui.content.calibration import Case
from ptb_tui.content.lookup import Content
from ptb_tui.core import clock, files, settings
from ptb_tui.core.calibration import CalibrationOrder
from ptb_tui.core.errors import NotAllowed, PtbError, StepError
from ptb_tui.core.layout import Root, RunFiles, StepName
from ptb_tui.core.settings import Settings
from ptb_tui.core.step import StepSpec
from ptb_tui.core.verdict import VerdictRecord
from ptb_tui.judging import calibration, counting
from ptb_tui.judging.calibration import Answer
from ptb_tui.run import calibration_plan, place, processes
from ptb_tui.run.calibration_plan import Found, Line
from ptb_tui.run.cases import OUTPUT, lay_out
from ptb_tui.run.erasing import erase
from ptb_tui.run.work import Report

_TICK_S = 0.05
_SPARE_S = 120.0  # beyond a judge's own limit, for its step to end by itself
_STOP_S = 15.0
# What is ours or the provider's: the next case would fare no better.
_ENDS = ("cli_missing", "content_changed", "credential", "image_missing", "provider_limit", "sandbox")


@dataclass(frozen=True, slots=True)
class Job:
    """One vote on one case, ready to be asked for."""

    line: Line
    case: Case
    vote: int
    run: RunFiles
    step: Path
    scratch: Path

    @property
    def words(self) -> str:
        """How a person calls it."""
        vote = f", vote {self.vote}" if self.line.votes > 1 else ""
        return f"{self.case.name}: {self.line.judge.name}, {self.line.subject.words}{vote}"


def _job(line: Line, case: Case, vote: int, run: RunFiles, scratch: Path) -> Job:
    number = len(run.step_folders()) + 1
    judge = line.judge
    step = StepSpec(
        kind="judge",
        judge=judge.name,
        n=number,
        vote=vote,
        votes=line.votes,
        limit_s=judge.spec.timeout_s + _SPARE_S / 2,
        engine=line.seat.engine,
        seat=line.seat,
        bundle="calibration",
    )
    folder = run.steps / StepName("judge", judge.name, number).folder(number)
    folder.mkdir()
    files.replace(folder / "step.json", files.dump(step.model_dump(mode="json")), durable=False)
    return Job(line, case, vote, run, folder, scratch / f"{run.run_dir.parents[1].name}-{number}")


class Calibration:
    """One order at one site."""

    def __init__(self, root: Root, found: Found, known: Settings, configured: str, report: Report) -> None:
        self.root, self.found, self.known, self.configured, self.report = root, found, known, configured, report
        self.total, self.done = sum(len(line.ask) for line in found.lines), 0

    def run(self, scratch: Path) -> None:
        """Ask for everything that is missing. PtbError with what stopped it; what is there is kept."""
        runs: dict[str, RunFiles] = {}
        for line in self.found.lines:
            for case, _ in line.ask:
                if case.name not in runs:
                    at = scratch / "runs" / str(len(runs) + 1)  # a judge can see in its mounts where it lies
                    runs[case.name] = lay_out(self.root, self.found, case, at, self.known, self.configured)
        for batch in self._batches():
            jobs = [_job(line, case, vote, runs[case.name], scratch / "steps") for line, case, vote in batch]
            self._ask(jobs, scratch)
            for job in jobs:
                erase(job.scratch)

    def _batches(self) -> Iterator[list[tuple[Line, Case, int]]]:
        """The rules are asked all at once, a model once in each process."""
        asked = [(line, case, vote) for line in self.found.lines for case, vote in line.ask]
        if rules := [one for one in asked if one[0].seat.engine == "rules"]:
            yield rules
        yield from ([one] for one in asked if one[0].seat.engine != "rules")

    def _ask(self, jobs: Sequence[Job], scratch: Path) -> None:
        file, log = scratch / "jobs.json", scratch / "log"
        content = [str(path) for path in self.found.content.paths]
        folders = [[str(job.run.ptb), str(job.step), str(job.scratch)] for job in jobs]
        files.replace(
            file, files.dump({"root": str(self.root.path), "content": content, "jobs": folders}), durable=False
        )
        with open(log, "wb") as out:
            child = subprocess.Popen(
                [sys.executable, "-I", str(place.entry()), "step-calibrate", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                env=place.step_environment(""),
            )
        try:
            for job in jobs:
                self.report.now(f"{self.done + 1} of {self.total}  {job.words}")
                self._wait(child, job, log)
                self._take(job)
            child.wait()
        finally:
            _stop(child, jobs)

    def _wait(self, child: subprocess.Popen[bytes], job: Job, log: Path) -> None:
        """Until the job has its result. StepError when there will be none."""
        ends = clock.monotonic() + job.line.judge.spec.timeout_s + _SPARE_S
        while not (job.step / "result.json").exists():
            over = child.poll() is not None
            if over and (job.step / "result.json").exists():
                return
            if over or clock.monotonic() > ends:
                said = (files.read_bytes(log, 1 << 20) or b"")[-500:].decode("utf-8", "replace").strip()
                what = f"ended with {child.returncode}" if over else "did not end"
                raise StepError(f"{job.words}: the judge {what}: {said}", cause="judge_failed")
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_TICK_S)

    def _take(self, job: Job) -> None:
        """Keep what a job left. StepError when that is no answer and the next would be none either."""
        result = files.read_object(job.step / "result.json") or {}
        cause, why = str(result.get("cause") or ""), str(result.get("why") or "")
        name = result.get("record")
        path = job.run.verdicts / job.line.judge.name / f"{name:03d}.json" if isinstance(name, int) else None
        try:
            record = VerdictRecord.model_validate(files.read_object(path)) if path is not None else None
        except ValidationError as error:
            raise StepError(f"{path} cannot be read: {error}", cause="judge_failed") from error
        if record is None or cause in _ENDS:
            hint = "the same command goes on where this one stopped"
            raise StepError(f"{job.words}: {why or 'no answer'}", cause=cause or "judge_failed", hint=hint)
        if record.prompt_hash and record.prompt_hash != job.line.subject.prompt_hash:
            raise StepError(f"{job.words}: the judge's words were changed meanwhile", cause="content_changed")
        extra, expect = record.model_extra or {}, job.case.file.expect
        tokens = extra.get("run_tokens")
        answer = Answer(
            case=job.case.name,
            digest=job.case.digest,
            vote=job.vote,
            expect={flag: expect[flag] for flag in job.line.judge.spec.flags if flag in expect},
            record=record,
            seconds=_seconds(record, extra),
            tokens={str(key): int(value) for key, value in tokens.items()} if isinstance(tokens, dict) else {},
            t=clock.utc_text(),
        )
        calibration.keep(self.root, job.line.subject, answer)
        self._keep_output(job)
        self.done += 1
        self.report.line(f"{job.words}: {_heard(answer)}")

    def _keep_output(self, job: Job) -> None:
        """What the judge printed and reached, so that a person can see why it missed something."""
        target = calibration.folder_of(self.root, job.line.subject) / "kept" / f"{job.case.name}-{job.vote}"
        for path in sorted((*job.step.glob("judge_output*"), *job.step.glob("egress*.jsonl"))):
            if (data := files.read_bytes(path, OUTPUT)) is not None:
                target.mkdir(parents=True, exist_ok=True)
                files.replace(target / path.name, data)


def _seconds(record: VerdictRecord, extra: Mapping[str, Any]) -> float:
    """How long the sessions took; of the rules, the time from begin to end."""
    sessions = extra.get("run_sessions")
    if isinstance(sessions, list) and sessions:
        return sum(float(row.get("seconds") or 0.0) for row in sessions if isinstance(row, dict))
    try:
        began, ended = (datetime.fromisoformat(text) for text in (record.started, record.ended))
    except ValueError:
        return 0.0
    return max(0.0, (ended - began).total_seconds())


def _heard(answer: Answer) -> str:
    """An answer in words, with what it got wrong."""
    if answer.record.verdict is None:
        return f"no verdict: {answer.record.state.value} {answer.record.reason}".rstrip()
    missed = [flag for flag, truth in answer.expect.items() if truth and answer.flag(flag) is not True]
    false = [flag for flag, truth in answer.expect.items() if not truth and answer.flag(flag) is not False]
    parts = [f"missed {', '.join(missed)}" if missed else "", f"false: {', '.join(false)}" if false else ""]
    return "; ".join(part for part in parts if part) or "right"


def _stop(child: subprocess.Popen[bytes], jobs: Sequence[Job]) -> None:
    """End what is still there: politely, so that a login that is being renewed is not lost, then for good."""
    if child.poll() is None:
        for job in jobs:
            with contextlib.suppress(OSError):
                files.replace(job.scratch / "stop.json", files.dump({"why": "stopped"}), durable=False)
        for pid in processes.inside(processes.descendants(child.pid)):
            processes.send(pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_STOP_S if processes.descendants(child.pid) else 0.1)
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
    for pid in processes.descendants(os.getpid()):
        processes.send(pid, signal.SIGKILL)
    child.wait()


def calibrate(request: Mapping[str, Any], report: Report) -> str:
    """Request: root, content (the content path), order, sandbox (the operator's word), endpoints."""
    processes.become_subreaper()
    content = Content(tuple(Path(str(path)) for path in request["content"]))
    order = CalibrationOrder.model_validate(request["order"])
    root, known, configured = Root(Path(str(request["root"]))), settings.load(cwd=Path("/")), str(request["sandbox"])
    found = calibration_plan.find(root, content, known, order, request["endpoints"])
    blocking = [one for one in calibration_plan.plan(root, known, found, configured).problems if one.blocks]
    if blocking:
        raise NotAllowed(blocking[0].words, hint=blocking[0].remedy)
    base = place.scratch_base(root)
    base.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="ptb-judging-", dir=base))
    work = Calibration(root, found, known, configured, report)
    try:
        work.run(scratch)
    except PtbError as error:
        report.line(f"{work.done} of {work.total} answers are there")
        raise error
    finally:
        erase(scratch)
    if not work.total:
        return "nothing to ask: all answers are there"
    wrong = sum(
        len(flag.missed) + len(flag.wrong) + len(flag.without)
        for line in found.lines
        if (kept := calibration.read(calibration.folder_of(root, line.subject))) is not None
        for flag in counting.measure(kept).flags
    )
    return f"{work.done} answers; {wrong} not as they should be" if wrong else f"{work.done} answers, all right"
