#!/usr/bin/env python3
"""GPQA: multiple-choice questions of graduate level; the four choices come in another order every time.

The letter on the last line of the reply counts, for example "ANSWER: C".
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path[:0] = [str(HERE.parent / "shared"), str(HERE / "task_context")]

import gpqa_task  # noqa: E402  # found through the path above
import ptb_eval  # noqa: E402


def build(items, args):
    """Dataset, prompt and scorer: the chosen letter."""
    return gpqa_task.parts(items, seed=None)


SPEC = ptb_eval.TaskSpec(
    name="gpqamain",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=16000,
    max_connections=6,
    gpu_memory_utilization=0.8,
    limit=50,
    fields=("id", "question", "choices"),
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
