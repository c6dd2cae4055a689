"""The verb `eval`: measure the final model of runs again."""

from __future__ import annotations

from typing import Annotated

import typer

from ptb_tui.cli.call import Call, app, verb
from ptb_tui.cli.runs import runs
from ptb_tui.core.errors import UsageError
from ptb_tui.present.arguments import Wait

Runs = Annotated[list[str], typer.Argument(metavar="RUN…", help="Ids, unique prefixes, site:id or paths.")]


def seeds_of(text: str) -> tuple[int, ...]:
    """The seeds of `--seeds 1,2,3`. UsageError for what is none, and for one that is named twice."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(part.isascii() and part.isdigit() and int(part) < 1 << 31 for part in parts):
        raise UsageError(f"--seeds {text!r}: whole numbers from 0 on are needed", hint="for example --seeds 1,2,3")
    found = tuple(int(part) for part in parts)
    if len(set(found)) != len(found):
        raise UsageError(f"--seeds {text!r} names a seed twice", hint="each seed counts once")
    return found


@verb(app, runs, name="eval")
async def evaluate(
    call: Call,
    run: Runs,
    seeds: Annotated[str, typer.Option("--seeds", metavar="S,S…", help="These seeds, not the protocol's.")] = "",
    n: Annotated[int, typer.Option("--n", metavar="N", help="So many evaluations, each with its own folder.")] = 1,
    limit: Annotated[int | None, typer.Option("--limit", metavar="K", help="Only the first K items.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="The new numbers become the score of a run that has one.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured, do nothing.")] = False,
    wait: Wait = False,
) -> int:
    """Evaluate the final model of runs again. An evaluation that was cut off is gone on with.

    Each has a folder of its own, `evaluation`, `evaluation_2` …, with its metrics.json. Only a whole one, with the
    seeds and items of the protocol, becomes the run's score, and only where it has none or with --replace.
    """
    from ptb_tui.core.action import Evaluate
    from ptb_tui.core.evaluating import MAX_SEEDS, MAX_TIMES, EvaluationQuery, Measurement

    chosen = seeds_of(seeds)
    if len(chosen) > MAX_SEEDS:
        raise UsageError(f"--seeds names {len(chosen)} seeds, more than {MAX_SEEDS}", hint="ask in several parts")
    if not 1 <= n <= MAX_TIMES:
        raise UsageError(f"--n {n}: between 1 and {MAX_TIMES} evaluations", hint="for example --n 3")
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit} leaves nothing to evaluate", hint="without --limit all items count")
    if replace and (chosen or limit is not None or n > 1):
        raise UsageError("--replace takes one whole evaluation", hint="leave out --seeds, --limit and --n")
    asked = Measurement(seeds=chosen, limit=limit, n=n, replace=replace)
    status = 0
    for name in run:
        if dry_run:
            from ptb_tui.present.evaluating import evaluation

            found = await call.show(EvaluationQuery(run=name, measurement=asked), evaluation, name)
            status = max(status, int(any(problem.blocks for problem in found.problems)))
            continue
        done = await call.do(name, lambda here: Evaluate(run=here, measurement=asked), wait=wait)
        status = max(status, done)
    return status
