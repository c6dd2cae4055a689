#!/usr/bin/env python3
"""Final evaluation of BFCL exec_simple, run by the organiser: a seed for every sample."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path[:0] = [str(HERE.parent / "shared"), str(HERE / "task_context")]

import bfcl_evaluation_code  # noqa: E402  # found through the path above
import bfcl_task  # noqa: E402
import ptb_eval  # noqa: E402


def build(items, args):
    """Dataset, tools and scorer: one call that equals the target."""
    return ptb_eval.Parts(bfcl_task.dataset(items), bfcl_evaluation_code.call_scorer(), bfcl_task.solvers())


SPEC = ptb_eval.TaskSpec(
    name="bfcl",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=16000,
    max_connections=6,
    gpu_memory_utilization=0.8,
    tools=True,
    fields=("id", "question", "tools", "target"),
    final=True,
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
