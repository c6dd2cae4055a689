#!/usr/bin/env python3
"""GSM8K: word problems of grade school mathematics, with ten worked examples in the system message.

The last number of the reply counts, for example "ANSWER: 18".
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path[:0] = [str(HERE.parent / "shared"), str(HERE / "task_context")]

import gsm8k_task  # noqa: E402  # found through the path above
import ptb_eval  # noqa: E402
import ptb_solvers  # noqa: E402


def build(items, args):
    """Dataset, prompt and scorer: inspect's numeric match at the end of the reply."""
    from inspect_ai.scorer import match
    from inspect_ai.solver import generate

    solvers = [*ptb_solvers.ask(gsm8k_task.PROMPT, gsm8k_task.system(items)), generate()]
    return ptb_eval.Parts(gsm8k_task.dataset(items), match(location="end", numeric=True), solvers)


SPEC = ptb_eval.TaskSpec(
    name="gsm8k",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=4000,
    max_connections=2,
    gpu_memory_utilization=0.3,
    limit=150,
    fields=("id", "question", "target", "reasoning"),
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
