"""How the steps of a run stand now, read with the standard library alone: what dispatch and supervisor decide by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ptb_tui.core import clock, events, files
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.states import State, StepFiles, StepState, fold


@dataclass(frozen=True, slots=True)
class StepNow:
    """A step with its state and its `step.json`."""

    number: int
    name: str
    state: StepState
    spec: dict[str, Any]
    closed: bool = True  # its supervisor said how it ended, or its command never started

    @property
    def over(self) -> bool:
        """Whether nothing is left to do; an exit record alone proves the end, but the step must still be closed."""
        return self.state.state.ended and self.closed

    @property
    def job(self) -> int:
        """The job it belongs to."""
        value = self.spec.get("job")
        return value if isinstance(value, int) else 1

    @property
    def after_agent(self) -> bool:
        """Whether it was planned to follow the agent, rather than asked for by a person afterwards."""
        return any("agent" in (wait.get("steps") or ()) for wait in self.spec.get("wait") or ())


def steps_now(run: RunFiles) -> list[StepNow]:
    """The steps of a run with their states, in order."""
    cancelled = run.cancel.exists()
    found: list[StepNow] = []
    ended: set[str] = set()
    for number, name, folder in run.step_folders():
        spec = files.read_object(folder / "step.json") or {}
        waits = False
        for wait in spec.get("wait") or ():
            if wait.get("kind") == "after":
                waits |= not set(wait.get("steps") or ()) <= ended
            elif wait.get("kind") == "not_before":
                waits |= str(wait.get("time")) > clock.utc_text()
        log = events.read(folder).events
        kinds = {event.kind for event in log}
        state = fold(
            StepFiles(
                events=log,
                exit=files.read_object(folder / "exit.json"),
                cancelled=cancelled,
                harvests=name.kind == "agent",
                waits=waits,
            )
        )
        if state.state.ended:
            ended.add(str(name))
        found.append(StepNow(number, str(name), state, spec, "ended" in kinds or "started" not in kinds))
    return found


def next_job(steps: list[StepNow]) -> list[StepNow]:
    """The steps of the first job that has something to do and does not wait; empty when there is none."""
    for job in sorted({step.job for step in steps}):
        todo = [step for step in steps if step.job == job and not step.over]
        if todo and todo[0].state.state is not State.WAITING:
            return todo
    return []


def agent_failed(steps: list[StepNow]) -> str:
    """Why steps that were to follow the agent have nothing to work on; empty while they may have."""
    for step in steps:
        if step.name == "agent" and step.state.state in (State.FAILED, State.CANCELLED):
            return f"the agent step did not finish: {step.state.why or step.state.cause or step.state.state.value}"
    return ""
