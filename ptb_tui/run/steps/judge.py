"""The step `judge:<judge>#n`: show a run to a judge and keep the verdict (E §3; design §5, §6).

A judge that fails or runs out of time leaves a record that says so; it never prevents the evaluation (case A09).
"""

from __future__ import annotations

import hashlib
import json
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
from ptb_tui.core import clock, files
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.spec import RunSpec
from ptb_tui.core.step import StepSpec
from ptb_tui.core.verdict import EngineResult, Evidence, JudgeEngine, VerdictRecord, VerdictState
from ptb_tui.evaluation.fingerprint import file_sha256
from ptb_tui.judging import history
from ptb_tui.run.diagnostics import exit_facts_of
from ptb_tui.run.steps import base_model_folder, conclude, read_spec

_NO_VERDICT = frozenset((VerdictState.MISSING, VerdictState.UNREADABLE, VerdictState.CONTRADICTORY))
_SPARE_S = 20.0  # between our own limit and the step's, to record the verdict


class TimedOut(BaseException):
    """The judge's time is up. Not an Exception, so that no engine takes it for a failure of its own."""


def engine_of(name: str) -> JudgeEngine:
    """The engine by name. StepError for one that this version does not have."""
    if name == "rules":
        from ptb_tui.judging.engines.rules import RulesEngine

        return RulesEngine()
    raise StepError(f"engine {name} is not in this version", cause="cli_missing")


def _file(path: Path) -> Path | None:
    return path if path.is_file() and not path.is_symlink() else None


def _folder(path: Path) -> Path | None:
    return path if path.is_dir() and not path.is_symlink() else None


def _base_config(content: Content, model: str) -> Path | None:
    folder = base_model_folder(content, model)
    if folder is not None:
        return _file(folder / "config.json")
    return content.file(f"judges/tools/reference_configs/{model.replace('/', '_')}.json")


def evidence_of(run: RunFiles, spec: RunSpec, task: Task, content: Content) -> Evidence:
    """What the judge may look at. StepError when our own tools are missing."""
    tools = content.shared("judges/tools")
    if tools is None:
        raise StepError("the judges' tools are in no content folder (judges/tools)", cause="judge_failed")
    agent = next((folder for _, name, folder in run.step_folders() if name.kind == "agent"), None)
    run_dir = run.run_dir
    model = _folder(run_dir / "final_model")
    return Evidence(
        run_dir=run_dir,
        task_dir=_folder(run_dir / "task"),
        solve_out=_file(run_dir / "solve_out.txt"),
        solve_parsed=_file(run_dir / "solve_parsed.txt"),
        test_data=task.test_data,
        model_config=_file(model / "config.json") if model else None,
        base_config=_base_config(content, spec.base_model),
        tools=tools,
        benchmark=task.name,
        base_model=spec.base_model,
        agent=spec.agent,
        agent_config=spec.config,
        hours=spec.hours,
        agent_seconds=exit_facts_of(agent, agent).elapsed_s if agent else None,
        allowed_data=task.info.allowed_data_examples,
        disallowed_data=task.info.disallowed_data_examples,
        egress=_file(run.ptb / "egress.jsonl"),
    )


def evidence_hash(evidence: Evidence) -> str:
    """Digest of what the judge was shown, so that a verdict says on which evidence it stands."""
    shown: dict[str, str] = {}
    for name in ("solve_out", "solve_parsed", "test_data", "model_config", "base_config"):
        path: Path | None = getattr(evidence, name)
        shown[name] = file_sha256(path) if path is not None else ""
    task = files.read_object(evidence.run_dir / ".ptb" / "task.json") or {}
    shown["task"] = str(task.get("digest", ""))
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


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


def work(ptb: Path, step_folder: Path) -> dict[str, Any]:
    """Judge, keep the verdict, return the facts of result.json. StepError for what is ours."""
    run, spec = RunFiles(ptb), read_spec(ptb)
    try:
        step = StepSpec.model_validate(files.read_object(step_folder / "step.json"))
    except ValueError as error:
        raise StepError(f"{step_folder / 'step.json'} cannot be read: {error}") from error
    content = Content.of()
    judge = load_judge(content, step.judge)
    plan = next((entry for entry in spec.judges if entry.judge == step.judge), None)
    name = step.engine or (plan.engine if plan else "rules")
    engine = engine_of(name)
    evidence = evidence_of(run, spec, load_task(content, spec.benchmark), content)
    asked = _Asked(judge, step, name, evidence_hash(evidence), clock.utc_text())
    print(f"judge {judge.name}, engine {name}, vote {step.vote}", flush=True)
    result = within(time_limit(step, judge), lambda: engine.judge(judge.name, judge.spec, evidence))
    entry = history.append(run, asked.record(result), vote=step.vote)
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
        return facts | {"cause": "judge_failed", "why": result.reason or result.state.value}
    return facts


def main(argv: Sequence[str]) -> int:
    """Internal verb: argv is `[ptb_dir, step_folder, scratch]`."""
    ptb, step_folder = Path(argv[0]), Path(argv[1])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return conclude(step_folder, lambda: work(ptb, step_folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
