"""The step `judge:<judge>#n`: show a run to a judge and keep the verdict (E §3; design §5, §6).

The engine `rules` always comes first: alone it gives the verdict, before another engine its findings are evidence. A
judge that fails or runs out of time leaves a record that says so; it never prevents the evaluation (case A09).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ptb_tui.content.judges import Judge, load_judge
from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import Task, load_task
from ptb_tui.core import clock, files, settings
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.spec import RunSpec
from ptb_tui.core.step import StepSpec
from ptb_tui.core.verdict import EngineResult, Evidence, VerdictRecord, VerdictState
from ptb_tui.judging import history
from ptb_tui.judging.collect import read_bounded
from ptb_tui.judging.engines.codex import MAX_OUTPUT, CodexEngine
from ptb_tui.judging.engines.rules import RulesEngine
from ptb_tui.judging.prompting import PromptFacts
from ptb_tui.run import judges, processes
from ptb_tui.run.erasing import erase
from ptb_tui.run.sandboxes import for_run, root_of
from ptb_tui.run.steps import conclude, read_spec
from ptb_tui.run.steps.chamber import JudgeChamber
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
class _Asked:
    judge: Judge
    step: StepSpec
    engine: str
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
                "engine": result.engine or self.engine,
                "model": result.model,
                "engine_version": result.engine_version,
                "prompt_hash": result.prompt_hash,
                "evidence_hash": self.evidence_hash,
                "step": str(self.step.name),
                "started": self.started,
                "ended": clock.utc_text(),
                "cost_usd": result.cost_usd,
            }
        )


def time_limit(step: StepSpec, judge: Judge) -> float:
    """Seconds the engine gets: the judge's own limit, and less than the step's, so that the end can be recorded."""
    return min(judge.spec.timeout_s, max(step.limit_s - _SPARE_S, step.limit_s * 0.8))


@dataclass(frozen=True, slots=True)
class _Case:
    """One judge step. `ends` is when the engine must be done, on `clock.monotonic`."""

    run: RunFiles
    spec: RunSpec
    content: Content
    task: Task
    judge: Judge
    step_folder: Path
    scratch: Path
    evidence: Evidence
    ends: float


def _chamber(case: _Case) -> JudgeChamber:
    """The sandbox for engine codex. StepError for what this site lacks, before anything is read."""
    root, known = root_of(case.run), settings.load(cwd=Path("/"))
    tool = judges.tool_of(case.judge.spec, root, case.content, known)
    sandbox = for_run(root, case.spec, case.content, role="judge")
    if not sandbox.isolated:
        raise StepError("a judge of engine codex needs a sandbox that isolates", cause="sandbox")
    return JudgeChamber(
        judge=case.judge.name,
        spec=case.judge.spec,
        run=case.spec,
        root=root,
        sandbox=sandbox,
        tool=tool,
        values=known.values,
        scratch=case.scratch,
        step_folder=case.step_folder,
    )


def _codex(case: _Case, chamber: JudgeChamber, rules: EngineResult) -> EngineResult:
    spec, task = case.spec, case.task
    facts = PromptFacts(
        model=spec.base_model,
        benchmark=task.label,
        agent=spec.agent,
        config=spec.config,
        allowed=task.info.allowed_data_examples,
        disallowed=task.info.disallowed_data_examples,
        graded=bool(task.info.required_api_keys),
    )
    place = case.scratch / "evidence"
    erase(place)
    engine = CodexEngine(
        chamber,
        case.judge.prompt.read_text("utf-8"),
        facts,
        rules,
        place=place,
        keep=case.step_folder,
        ends=case.ends,
    )
    return engine.judge(case.judge.name, case.judge.spec, case.evidence)


def _publish_output(case: _Case, entry: history.Entry, result: EngineResult) -> None:
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


def work(ptb: Path, step_folder: Path, scratch: Path) -> dict[str, Any]:
    """Judge, keep the verdict, return the facts of result.json. StepError for what is ours."""
    run, spec, began = RunFiles(ptb), read_spec(ptb), clock.monotonic()
    try:
        step = StepSpec.model_validate(files.read_object(step_folder / "step.json"))
    except ValueError as error:
        raise StepError(f"{step_folder / 'step.json'} cannot be read: {error}") from error
    content = Content.of()
    judge = load_judge(content, step.judge)
    plan = next((entry for entry in spec.judges if entry.judge == step.judge), None)
    name = step.engine or (plan.engine if plan else "rules")
    if name not in judges.ENGINES:
        raise StepError(f"engine {name} is not in this version", cause="cli_missing")
    task = load_task(content, spec.benchmark)
    evidence = evidence_of(run, spec, task, content)
    limit = time_limit(step, judge)
    case = _Case(run, spec, content, task, judge, step_folder, scratch, evidence, began + limit)
    asked = _Asked(judge, step, name, evidence_hash(evidence), clock.utc_text())
    print(f"judge {judge.name}, engine {name}, vote {step.vote}", flush=True)
    chamber = _chamber(case) if name == "codex" else None
    share = limit if chamber is None else min(RULES_S, limit / 4)
    result = within(share, lambda: RulesEngine().judge(judge.name, judge.spec, evidence))
    if chamber is not None:
        print(f"rules: {result.state.value}, {len(result.findings)} findings", flush=True)
        result = _codex(case, chamber, result)
    entry = history.append(run, asked.record(result), vote=step.vote)
    _publish_output(case, entry, result)
    facts: dict[str, Any] = {
        "judge": judge.name,
        "engine": name,
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
