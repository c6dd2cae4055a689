"""What to do next for a run, decided from how its steps stand now. Standard library alone."""

from __future__ import annotations

from collections.abc import Sequence

from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.states import State
from ptb_tui.results.steps import Folded, fold_steps, read_observed


def steps_now(root: Root, run_id: int, run: RunFiles) -> list[Folded]:
    """The steps of a run, folded, in order."""
    return list(fold_steps(run, read_observed(root, run_id)))


def next_job(steps: Sequence[Folded]) -> list[Folded]:
    """The steps of the first job that has something to do and does not wait; empty when there is none."""
    for job in sorted({step.job for step in steps}):
        todo = [step for step in steps if step.job == job and not step.over]
        if todo and todo[0].state.state is not State.WAITING:
            return todo
    return []


def agent_failed(steps: Sequence[Folded]) -> str:
    """Why steps that were to follow the agent have nothing to work on; empty while they may have."""
    for step in steps:
        if step.name.kind == "agent" and step.state.state in (State.FAILED, State.CANCELLED):
            return f"the agent step did not finish: {step.state.why or step.state.cause or step.state.state.value}"
    return ""
