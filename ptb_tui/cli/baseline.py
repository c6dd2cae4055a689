"""The verb `baseline`: a model measured as it is, without an agent."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ptb_tui.cli.call import Call, Detach, app, verb
from ptb_tui.core.errors import UsageError

MODEL = "ORGANISATION/NAME of the hub's cache, local/NAME, or the path of a folder. Without it: what was measured."


@verb(app)
async def baseline(
    call: Call,
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task; without one, what was measured so far.")] = "",
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL)] = "",
    protocol: Annotated[
        str, typer.Option("--protocol", metavar="P", help="Whose seeds and templates; else the newest with the task.")
    ] = "",
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="So many seeds, 1 to 5; else as the protocol says.")
    ] = 0,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="The first N items only; -1: all.")] = -1,
    answers: Annotated[
        bool, typer.Option("--answers", help="Write the model's answers as the task's baseline_answers.jsonl instead.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done and what is missing.")] = False,
    detach: Detach = False,
) -> int:
    """Measure a model as it is, with the final evaluation and no agent. Prints the lines for a protocol's [baselines].

    The measurement goes on at the site whatever becomes of this command. Interrupted, the same command goes on with it.
    """
    from ptb_tui.core.action import Baseline
    from ptb_tui.core.baseline import BaselineOrder, BaselinesQuery
    from ptb_tui.present.baseline import lines, plan, table

    if not model:
        if dry_run or answers or seeds or limit != -1:
            raise UsageError("a task and a model are needed", hint="ptb-tui baseline gsm8k Qwen/Qwen3-1.7B-Base")
        await call.show(BaselinesQuery(task=task), table)
        return 0
    if not 0 <= seeds <= 5:
        raise UsageError(f"--seeds {seeds}: 1 to 5 are known", hint="without --seeds as many as the protocol says")
    if model.startswith("."):
        model = os.path.abspath(model)
    order = BaselineOrder(task=task, model=model, protocol=protocol, seeds=seeds, limit=limit, answers=answers)
    if dry_run:
        view = await call.show(BaselinesQuery(task=task, order=order), plan)
        return 1 if any(one.blocks for one in view.plan.problems) else 0
    status = await call.work(lambda: Baseline(order=order), detach=detach)
    if status or detach or answers:
        return status
    await call.show(BaselinesQuery(task=task, order=order), lines)
    return 0
