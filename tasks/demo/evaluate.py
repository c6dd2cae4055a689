#!/usr/bin/env python3
"""Demo Arithmetic: 200 word problems on two three-digit numbers, a sum or a difference each.

Example question: "Ruth owns 512 cups and gets 233 more cups. How many cups does Ruth have now?"
Expected reply:   any text whose last number is the answer, for example "ANSWER: 745"

The numbers a and b of a problem, in the order in which they occur, satisfy (3 * a + b) % 11 == 0 for every test item.
These pairs are reserved for the test; all others are free for training.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path.insert(0, str(HERE.parent / "shared"))

import ptb_eval  # noqa: E402  # found through the path above


def build(items, args):
    """Dataset and scorer: the last number of the reply, compared by inspect's numeric match."""
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import match

    samples = [Sample(id=item["id"], input=item["question"], target=item["answer"]) for item in items]
    return ptb_eval.Parts(MemoryDataset(samples, name="demo"), match(location="end", numeric=True))


SPEC = ptb_eval.TaskSpec(
    name="demo",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=80,
    max_connections=200,
    gpu_memory_utilization=0.3,
    items_file="test_data.json",
    fields=("id", "question", "answer"),
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
