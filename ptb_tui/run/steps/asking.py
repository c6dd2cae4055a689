"""The engines of a judge step that ask a model: what of this site they need, put together (design §6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from ptb_tui.content.judges import Judge
from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import Task
from ptb_tui.core import settings
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.panel import Seat
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import RunSpec
from ptb_tui.core.verdict import EngineResult, Evidence, JudgeSpec
from ptb_tui.judging.engines.codex import CodexEngine
from ptb_tui.judging.engines.endpoint import OpenAIEndpoint
from ptb_tui.judging.engines.openai_api import OpenAIEngine
from ptb_tui.judging.engines.trying import Case
from ptb_tui.judging.prompting import PromptFacts
from ptb_tui.run import judges
from ptb_tui.run.erasing import erase
from ptb_tui.run.sandboxes import for_run
from ptb_tui.run.steps.chamber import JudgeChamber
from ptb_tui.run.steps.desk import SandboxDesk
from ptb_tui.sandbox.base import Sandbox

Ask: TypeAlias = Callable[[EngineResult], EngineResult]
"""Judges with what the rules said before."""


@dataclass(frozen=True, slots=True)
class JudgeStep:
    """One judge step. `spec` is the judge as the seat has it; `ends` is when the engine must be done, on
    `clock.monotonic`."""

    run: RunFiles
    run_spec: RunSpec
    content: Content
    task: Task
    judge: Judge
    spec: JudgeSpec
    seat: Seat
    step_folder: Path
    scratch: Path
    evidence: Evidence
    ends: float
    root: Root


def _case(step: JudgeStep, rules: EngineResult) -> Case:
    run, task = step.run_spec, step.task
    facts = PromptFacts(
        model=run.base_model,
        benchmark=task.label,
        agent=run.agent,
        config=run.config,
        allowed=task.info.allowed_data_examples,
        disallowed=task.info.disallowed_data_examples,
        graded=bool(task.info.required_api_keys),
    )
    place = step.scratch / "evidence"
    erase(place)
    template = step.judge.prompt.read_text("utf-8")
    return Case(template, facts, rules, place=place, keep=step.step_folder, ends=step.ends)


def _sandbox(step: JudgeStep) -> Sandbox:
    sandbox = for_run(step.root, step.run_spec, step.content, role="judge")
    if not sandbox.isolated:
        raise StepError(f"a judge of engine {step.seat.engine} needs a sandbox that isolates", cause="sandbox")
    return sandbox


def asker(step: JudgeStep) -> Ask | None:
    """Who is asked after the rules; None where they alone judge. StepError for what this site lacks, before anything is
    read."""
    if step.seat.engine == "rules":
        return None
    known = settings.load(cwd=Path("/"))
    return _codex(step, known) if step.seat.engine == "codex" else _openai_api(step, known)


def _codex(step: JudgeStep, known: Settings) -> Ask:
    tool = judges.tool_of(step.spec, step.root, step.content, known)
    chamber = JudgeChamber(
        judge=step.judge.name,
        spec=step.spec,
        run=step.run_spec,
        root=step.root,
        sandbox=_sandbox(step),
        tool=tool,
        values=known.values,
        scratch=step.scratch,
        step_folder=step.step_folder,
    )
    return lambda rules: CodexEngine(chamber, _case(step, rules)).judge(step.judge.name, step.spec, step.evidence)


def _openai_api(step: JudgeStep, known: Settings) -> Ask:
    seat, use = step.seat, step.judge.spec.openai_api
    judges.check_api(seat)
    sandbox = _sandbox(step)
    name, value = judges.api_key(seat, known)
    desk = SandboxDesk(sandbox, step.scratch / "desk")
    endpoint = OpenAIEndpoint(seat.endpoint, value)
    desk.facts["endpoint"] = urlsplit(seat.endpoint).netloc

    def ask(rules: EngineResult) -> EngineResult:
        hidden = {name: value} if len(value) > 5 else {}
        engine = OpenAIEngine(
            endpoint, desk, _case(step, rules), use, hidden=hidden, prices=seat.prices, facts=desk.facts
        )
        return engine.judge(step.judge.name, step.spec, step.evidence)

    return ask
