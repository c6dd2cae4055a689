#!/usr/bin/env python3
"""HumanEval: Python functions to be written from their signature and docstring.

The first fenced block of the reply is taken, its first signature line is dropped; prompt, answer and tests run as one
program, which must end with status 0 within 30 seconds.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path[:0] = [str(HERE.parent / "shared"), str(HERE / "task_context")]

import humaneval_task  # noqa: E402  # found through the path above
import ptb_eval  # noqa: E402


def build(items, args):
    """Dataset, prompt and scorer: one program."""
    return ptb_eval.Parts(humaneval_task.dataset(items), humaneval_task.program_scorer())


SPEC = ptb_eval.TaskSpec(
    name="humaneval",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=4000,
    max_connections=1,
    gpu_memory_utilization=0.3,
    limit=150,
    fields=("id", "prompt", "test", "entry_point"),
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
