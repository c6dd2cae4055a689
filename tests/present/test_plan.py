"""What stands in the way of a sweep, in as few lines as it has reasons."""

from __future__ import annotations

from ptb_tui.core.spec import Plan, PlanCell, Problem, ProtocolRef, RunSpec, Sweep
from ptb_tui.present.plan import blocking

AGENTS, TASKS, MODELS = ("claude", "codex"), ("gsm8k", "bfcl"), ("org/one", "org/two")


def cell(agent: str, task: str, model: str) -> PlanCell:
    protocol = ProtocolRef(name="p", fingerprint="0")
    spec = RunSpec(agent=agent, config="c", benchmark=task, base_model=model, hours=1, protocol=protocol)
    found = [Problem(words="no login", remedy="log in"), Problem(words="a remark", blocks=False)]
    found += [Problem(words="no key")] if agent == "claude" else []
    found += [Problem(words="no items", remedy="fetch them")] if task == "bfcl" and model == "org/two" else []
    found += [Problem(words="only here")] if (agent, task, model) == ("codex", "gsm8k", "org/one") else []
    return PlanCell(spec=spec, action="blocked", problems=tuple(found))


def test_a_reason_of_many_cells_is_one_line() -> None:
    sweep = Sweep.model_validate(
        {"name": "s", "protocol": "p", "tasks": TASKS, "models": MODELS, "agents": [{"agent": "a", "config": "c"}]}
    )
    cells = tuple(cell(agent, task, model) for agent in AGENTS for task in TASKS for model in MODELS)
    assert blocking(Plan(sweep=sweep, cells=cells)) == [
        "all 8 cells: no login – log in",
        "4 cells · claude c: no key",
        "2 cells · bfcl · org/two: no items – fetch them",
        "codex c · gsm8k · org/one: only here",
    ]
