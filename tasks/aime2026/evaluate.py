#!/usr/bin/env python3
"""AIME 2026: 30 problems of the American Invitational Mathematics Examination, whole numbers as answers.

The last number of the reply counts, for example "ANSWER: 204"; a \\boxed{} around it is ignored."""

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
    """Dataset, prompt and scorer: inspect's numeric match at the end of the reply."""
    from inspect_ai.solver import generate

    solvers = [*ptb_solvers.ask(ptb_aime.PROMPT), generate()]
    return ptb_eval.Parts(ptb_aime.dataset(items, "aime2026"), ptb_scorers.boxed_match(), solvers)


SPEC = ptb_eval.TaskSpec(
    name="aime2026",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=16000,
    max_connections=6,
    gpu_memory_utilization=0.8,
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
