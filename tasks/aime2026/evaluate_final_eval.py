#!/usr/bin/env python3
"""Final evaluation of AIME 2026, run by the organiser: exact value of the last number, a seed for every sample."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path[:0] = [str(HERE.parent / "shared"), str(HERE / "task_context")]

import ptb_aime  # noqa: E402  # found through the path above
import ptb_eval  # noqa: E402
import ptb_scorers  # noqa: E402
import ptb_solvers  # noqa: E402


def build(items, args):
    """Dataset, prompt and scorer: the exact value of the last number."""
    from inspect_ai.solver import generate

    solvers = [*ptb_solvers.ask(ptb_aime.PROMPT), generate()]
    return ptb_eval.Parts(ptb_aime.dataset(items, "aime2026"), ptb_scorers.last_number_unboxed(), solvers)


SPEC = ptb_eval.TaskSpec(
    name="aime2026",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=16000,
    max_connections=6,
    gpu_memory_utilization=0.8,
    final=True,
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
