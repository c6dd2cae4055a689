#!/usr/bin/env python3
"""Final evaluation of GSM8K, run by the organiser: exact value of the last number, a seed for every sample."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path[:0] = [str(HERE.parent / "shared"), str(HERE / "task_context")]

import gsm8k_task  # noqa: E402  # found through the path above
import ptb_eval  # noqa: E402
import ptb_scorers  # noqa: E402
import ptb_solvers  # noqa: E402


def build(items, args):
    """Dataset, prompt and scorer: the exact value of the last number."""
    from inspect_ai.solver import generate

    solvers = [*ptb_solvers.ask(gsm8k_task.PROMPT, gsm8k_task.system(items)), generate()]
    return ptb_eval.Parts(gsm8k_task.dataset(items), ptb_scorers.signed_last_number(), solvers)


SPEC = ptb_eval.TaskSpec(
    name="gsm8k",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=4000,
    max_connections=2,
    gpu_memory_utilization=0.3,
    limit=None,
    fields=("id", "question", "target", "reasoning"),
    final=True,
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
