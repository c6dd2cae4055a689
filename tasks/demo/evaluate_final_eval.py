#!/usr/bin/env python3
"""Final evaluation of Demo Arithmetic, run by the organiser: exact value of the last number, and `--seed`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path.insert(0, str(HERE.parent / "shared"))

import ptb_eval  # noqa: E402  # found through the path above
import ptb_scorers  # noqa: E402


def build(items, args):
    """Dataset and scorer of the final evaluation."""
    from inspect_ai.dataset import MemoryDataset, Sample

    samples = [Sample(id=item["id"], input=item["question"], target=item["answer"]) for item in items]
    return ptb_eval.Parts(MemoryDataset(samples, name="demo"), ptb_scorers.signed_last_number())


SPEC = ptb_eval.TaskSpec(
    name="demo",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=80,
    max_connections=200,
    gpu_memory_utilization=0.3,
    final=True,
    items_file="test_data.json",
    fields=("id", "question", "answer"),
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
