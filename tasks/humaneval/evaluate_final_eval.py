#!/usr/bin/env python3
"""Final evaluation of HumanEval, run by the organiser: answers run apart from the tests, in a sandbox of their own."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path[:0] = [str(HERE.parent / "shared"), str(HERE / "task_context")]
sys.path.insert(0, str(HERE / "evaluation_code"))

import answer_scorer  # noqa: E402  # found through the path above
import humaneval_task  # noqa: E402
import ptb_eval  # noqa: E402


def build(items, args):
    """Dataset, prompt and scorer: the tests call the answer over a socket."""
    return ptb_eval.Parts(humaneval_task.dataset(items), answer_scorer.answer_scorer())


SPEC = ptb_eval.TaskSpec(
    name="humaneval",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=4000,
    max_connections=1,
    gpu_memory_utilization=0.3,
    limit=None,
    fields=("id", "prompt", "test", "entry_point"),
    final=True,
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
