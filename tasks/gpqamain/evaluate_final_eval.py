#!/usr/bin/env python3
"""Final evaluation of GPQA, run by the organiser: the run's seed decides the order of the choices, too."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path[:0] = [str(HERE.parent / "shared"), str(HERE / "task_context")]

import gpqa_task  # noqa: E402  # found through the path above
import ptb_eval  # noqa: E402


def build(items, args):
    """Dataset, prompt and scorer: the chosen letter."""
    return gpqa_task.parts(items, seed=args.seed)


SPEC = ptb_eval.TaskSpec(
    name="gpqamain",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=16000,
    max_connections=6,
    gpu_memory_utilization=0.8,
    limit=None,
    fields=("id", "question", "choices"),
    final=True,
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
