"""The step `judge:<judge>#n`: show a run to a judge and keep the verdict (E §3; design §5, §6).

The engine `rules` always comes first: alone it gives the verdict, before another engine its findings are evidence. A
judge that fails or runs out of time leaves a record that says so; it never prevents the evaluation (case A09).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, cast

from ptb_tui.content.judges import Judge, for_seat, load_judge, panel
from ptb_tui.content.lookup import Content
from ptb_tui.content.prompt import judge_prompt
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core import clock, files
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.panel import EngineName, Seat
from ptb_tui.core.spec import Judging, RunSpec
from ptb_tui.core.step import StepSpec
from ptb_tui.core.verdict import EVIDENCE, EngineResult, VerdictRecord, VerdictState
from ptb_tui.judging import history
from ptb_tui.judging.collect import read_bounded
from ptb_tui.judging.engines.codex import MAX_OUTPUT
from ptb_tui.judging.engines.rules import RulesEngine
from ptb_tui.run import judges, processes
from ptb_tui.run.sandboxes import root_of
from ptb_tui.run.steps import conclude, read_spec, same_benchmark
from ptb_tui.run.steps.asking import JudgeStep, asker
from ptb_tui.run.steps.shown import evidence_hash, evidence_of

_NO_VERDICT = frozenset((VerdictState.MISSING, VerdictState.UNREADABLE, VerdictState.CONTRADICTORY))
RULES_S = 600.0  # at most, of the time of another engine
_SPARE_S = 20.0  # between our own limit and the step's, to record the verdict


class TimedOut(BaseException):
    """The judge's time is up. Not an Exception, so that no engine takes it for a failure of its own."""


def within(seconds: float, ask: Callable[[], EngineResult]) -> EngineResult:
    """The engine's answer, or a result that says the time is up."""

    def ring(*_: object) -> NoReturn:
        raise TimedOut

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return ask()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except TimedOut:
        return EngineResult(VerdictState.TIMED_OUT, reason=f"no verdict within {seconds:g} s")
    finally:
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A run that is judged without being written to: its directory, what is known of it, how long its agent worked."""

    tree: Path
    spec: RunSpec
    agent_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    judge: Judge
    step: StepSpec
    seat: Seat
    evidence_hash: str
    started: str

    def record(self, result: EngineResult) -> VerdictRecord:
        """The answer as it is kept."""
        meta = {"run_" + name: value for name, value in result.extra.items()}
        return VerdictRecord.model_validate(
            {
                **meta,
                "judge": self.judge.name,
                "output_id": self.judge.spec.output_id,
                "state": result.state,
                "verdict": result.verdict,
                "reason": result.reason,
                "findings": list(result.findings),
                "engine": result.engine or self.seat.engine,
                "model": result.model,
                "engine_version": result.engine_version,
                "prompt_hash": result.prompt_hash,
                "evidence_hash": self.evidence_hash,
                "source": EVIDENCE if self.step.evidence else "judge",
                "step": str(self.step.name),
                "started": self.started,
                "ended": clock.utc_text(),
                "cost_usd": result.cost_usd,
                "effort": self.seat.effort,
                "votes_wanted": self.step.votes,
            }
        )


def time_limit(step: StepSpec, judge: Judge) -> float:
    """Seconds the engine gets: the judge's own limit, and less than the step's, so that the end can be recorded."""
    return min(judge.spec.timeout_s, max(step.limit_s - _SPARE_S, step.limit_s * 0.8))


def seat_of(step: StepSpec, spec: RunSpec, judge: Judge) -> Seat:
    """Who gives the vote of this step: as it was asked for, else as the run was planned. StepError for an engine that
    is not here."""
    plan = next((entry for entry in spec.judges if entry.judge == step.judge), None)
    name = step.engine or (plan.engine if plan else "rules")
    if name not in judges.ENGINES:
        raise StepError(f"engine {name} is not in this version", cause="cli_missing")
    if step.seat is not None:
        return step.seat
    return panel(judge.spec, Seat(engine=cast(EngineName, name)), Judging(engine=cast(EngineName, name)))[0]


def _publish_output(case: JudgeStep, entry: history.Entry, result: EngineResult) -> None:
    """What the judge printed, beside the public verdict that it led to (E §3.7). None without a verdict."""
    sessions = result.extra.get("sessions") or ()
    if result.verdict is None or not sessions:
        return
    run_dir, id_ = case.run.run_dir, case.judge.spec.output_id
    if entry.vote > 1:
        stem = run_dir / history.VOTES / f"judge_output_{id_}_run{entry.vote}"
    else:
        inline = read_bounded(run_dir / f"judgement_{id_}.json")[0] == history.public_form(entry).encode()
        stem = run_dir / f"judge_output_{id_}{'' if inline else '_rerun'}"
    for ending in (".json", ".txt"):
        data = files.read_bytes(case.step_folder / f"{sessions[-1]['output']}{ending}", MAX_OUTPUT * 4)
        if data is not None:
            files.replace(stem.with_name(stem.name + ending), data)


def work(
    ptb: Path,
    step_folder: Path,
    scratch: Path,
    content: Content | None = None,
    root: Root | None = None,
    elsewhere: Elsewhere | None = None,
) -> dict[str, Any]:
    """Judge, keep the verdict, return the facts of result.json. StepError for what is ours.

    `content` and `root` are those of this program and of the run, unless somebody else says so. With `elsewhere` the
    evidence is that run's, and `ptb` is where verdicts about it go."""
    began, run = clock.monotonic(), RunFiles(ptb)
    spec, root = elsewhere.spec if elsewhere else read_spec(ptb), root or root_of(run)
    try:
        step = StepSpec.model_validate(files.read_object(step_folder / "step.json"))
    except ValueError as error:
        raise StepError(f"{step_folder / 'step.json'} cannot be read: {error}") from error
    content = content or Content.of()
    judge = load_judge(content, step.judge)
    seat = seat_of(step, spec, judge)
    task = load_task(content, spec.benchmark, data_store(root.path))
    protocol = load_protocol(content, spec.protocol.name)
    if not step.bundle:  # else asked for with the judges of another day
        same_benchmark(spec, content, protocol, task)
    judge = replace(judge, prompt=judge_prompt(content, spec, judge.prompt, protocol))
    evidence = evidence_of(RunFiles(elsewhere.tree / ".ptb") if elsewhere else run, spec, task, content)
    if elsewhere and evidence.agent_seconds is None:
        evidence = replace(evidence, agent_seconds=elsewhere.agent_seconds)
    limit = time_limit(step, judge)
    case = JudgeStep(
        run, spec, content, task, judge, for_seat(judge.spec, seat), seat, step_folder, scratch, evidence,
        began + limit, root,
    )  # fmt: skip
    asked = _Asked(judge, step, seat, evidence_hash(evidence), clock.utc_text())
    print(f"judge {judge.name}, {seat.words}, vote {step.vote}", flush=True)
    ask = asker(case)
    share = limit if ask is None else min(RULES_S, limit / 4)
    result = within(share, lambda: RulesEngine().judge(judge.name, judge.spec, evidence))
    if ask is not None:
        print(f"rules: {result.state.value}, {len(result.findings)} findings", flush=True)
        result = ask(result)
    under = elsewhere.tree if elsewhere else None
    entry = history.append(run, asked.record(result), vote=step.vote, under=under)
    _publish_output(case, entry, result)
    facts: dict[str, Any] = {
        "judge": judge.name,
        "engine": seat.engine,
        "vote": step.vote,
        "state": result.state.value,
        "record": entry.number,
        "flagged": list(entry.record.flagged),
        "findings": len(result.findings),
    }
    if result.state is VerdictState.TIMED_OUT:
        return facts | {"cause": "judge_timeout", "why": result.reason}
    if result.state in _NO_VERDICT:
        return facts | {
            "cause": str(result.extra.get("cause") or "judge_failed"),
            "why": result.reason or result.state.value,
        }
    return facts


def main(argv: Sequence[str]) -> int:
    """Internal verb: argv is `[ptb_dir, step_folder, scratch]`."""
    ptb, step_folder, scratch = (Path(part) for part in argv[:3])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    processes.become_subreaper()
    return conclude(step_folder, lambda: work(ptb, step_folder, scratch))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
