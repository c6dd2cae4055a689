"""What a sweep would do, before anything is done; and what stands in its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptb_tui.present import numbers, words
from ptb_tui.present.table import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptb_tui.core.spec import Plan, PlanCell
    from ptb_tui.present.output import Output


def blocking(plan: Plan) -> list[str]:
    """Every reason why this plan must not be carried out, one line each: for which cells, why, with its remedy."""
    found: list[str] = []
    for problem in plan.problems:
        if problem.blocks:
            found.append(_with_remedy(problem.words, problem.remedy))
    cells: dict[str, list[PlanCell]] = {}
    for cell in plan.cells:
        reasons = [_with_remedy(problem.words, problem.remedy) for problem in cell.problems if problem.blocks]
        if cell.action == "blocked" and not reasons:
            reasons = [cell.why or "blocked"]
        for reason in dict.fromkeys(reasons):
            cells.setdefault(reason, []).append(cell)
    found.extend(f"{_which(some, plan.cells)}: {reason}" for reason, some in cells.items())
    return list(dict.fromkeys(found))


def remarks(plan: Plan) -> list[str]:
    """What a person should know but what does not stand in the way."""
    problems = [*plan.problems, *(problem for cell in plan.cells for problem in cell.problems)]
    return list(dict.fromkeys(_with_remedy(item.words, item.remedy) for item in problems if not item.blocks))


def _with_remedy(text: str, remedy: str) -> str:
    return f"{text} – {remedy}" if remedy else text


def _label(cell: PlanCell) -> str:
    return " · ".join(_parts(cell))


def _parts(cell: PlanCell) -> tuple[str, str, str]:
    spec = cell.spec
    return f"{spec.agent} {spec.config}", spec.benchmark, spec.base_model


_NAMED = 3  # so many agents, tasks or models of a group of cells are named


def _which(some: Sequence[PlanCell], every: Sequence[PlanCell]) -> str:
    """Cells in words: the one, or how many, and what they have that other cells of the plan have not."""
    if len(some) == 1:
        return _label(some[0])
    if len(some) == len(every):
        return f"all {len(every)} cells"
    words = [numbers.count(len(some), "cell")]
    for part in range(3):
        mine, all_of = (list(dict.fromkeys(_parts(cell)[part] for cell in cells)) for cells in (some, every))
        if len(mine) < len(all_of):
            more = f" and {len(mine) - _NAMED} more" if len(mine) > _NAMED else ""
            words.append(", ".join(mine[:_NAMED]) + more)
    return " · ".join(words)


def counts(plan: Plan) -> dict[str, int]:
    """Cells by what would happen to them."""
    found = dict.fromkeys(("submit", "exists", "running", "blocked"), 0)
    for cell in plan.cells:
        found[cell.action] += 1
    return found


def summary(plan: Plan) -> str:
    """One line: cells, what exists, GPU hours, money."""
    number = counts(plan)
    parts = [numbers.count(len(plan.cells), "cell")]
    parts += [f"{number[name]} {word}" for name, word in _COUNTED if number[name]]
    parts.append(f"at most {numbers.gpu_hours(plan.gpu_hours)}")
    budget = plan.sweep.limits.budget_usd
    parts.append("money unknown" + (f" (budget {numbers.money(budget)})" if budget is not None else ""))
    return " · ".join(parts)


_COUNTED = (("submit", "to submit"), ("exists", "exist"), ("running", "running"), ("blocked", "blocked"))


def show(out: Output, plan: Plan) -> None:
    """The plan for people."""
    out.line(f"Sweep {plan.sweep.name} · protocol {plan.sweep.protocol}", "bold")
    columns = ("", "AGENT", "CONFIG", "TASK", "MODEL", "HOURS", "GPUS", "RUN", "WHY")
    empty = [place for place, said in ((7, "run_id"), (8, "why")) if not any(getattr(c, said) for c in plan.cells)]
    table = Table(columns, right=frozenset({5, 6}), rigid=frozenset({0, 7}), spare=(*empty, 6, 5))
    for cell in plan.cells:
        look, spec = words.plan_action(cell.action), cell.spec
        table.add(
            Cell(look.text(ascii_only=out.ascii_only), look.colour),
            spec.agent,
            spec.config,
            spec.benchmark,
            Cell(spec.base_model, short=spec.base_model.rpartition("/")[2]),
            numbers.plain(spec.hours),
            str(spec.gpus),
            str(cell.run_id) if cell.run_id is not None else "",
            cell.why,
        )
    out.table(table, indent=2)
    out.line(summary(plan))
    where = [f"sandbox {plan.sandbox}"] if plan.sandbox else []
    where += sorted({f"{name} → {url}" for cell in plan.to_submit for name, url in cell.spec.endpoints.items()})
    if where:
        out.line(" · ".join(where))
    for remark in remarks(plan):
        out.note(f"note: {remark}")


def record(plan: Plan) -> dict[str, Any]:
    """The plan as an event of `--json`."""
    return {
        "event": "plan",
        "sweep": plan.sweep.name,
        "protocol": plan.sweep.protocol,
        "sandbox": plan.sandbox,
        "counts": counts(plan),
        "gpu_hours": plan.gpu_hours,
        "money_usd": None,
        "problems": [problem.model_dump(mode="json") for problem in plan.problems],
        "cells": [
            {
                "action": cell.action,
                "agent": cell.spec.agent,
                "config": cell.spec.config,
                "task": cell.spec.benchmark,
                "model": cell.spec.base_model,
                "method": cell.spec.method,
                "hours": cell.spec.hours,
                "gpus": cell.spec.gpus,
                "endpoints": cell.spec.endpoints,
                "run_id": cell.run_id,
                "why": cell.why,
                "problems": [problem.model_dump(mode="json") for problem in cell.problems],
            }
            for cell in plan.cells
        ],
    }
