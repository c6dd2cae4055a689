#!/usr/bin/env python3
"""Final evaluation of Demo Arithmetic, run by the organiser: exact value of the last number, and `--seed`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path.insert(0, str(HERE.parent / "shared"))

import ptb_eval  # noqa: E402  # found through the path above
import ptb_numbers  # noqa: E402


def exact_scorer():
    """A scorer that compares values, not endings of numbers."""
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer, stderr

    @scorer(metrics=[accuracy(), stderr()])
    def signed_last_number():
        async def score(state, target):
            completion = state.output.completion
            answer, right = ptb_numbers.signed_last_number_exact(completion, target.text)
            return Score(value=CORRECT if right else INCORRECT, answer=answer, explanation=completion)

        return score

    return signed_last_number()


def build(items):
    """Dataset and scorer of the final evaluation."""
    from inspect_ai.dataset import MemoryDataset, Sample

    samples = [Sample(id=item["id"], input=item["question"], target=item["answer"]) for item in items]
    return MemoryDataset(samples, name="demo"), exact_scorer()


SPEC = ptb_eval.TaskSpec(
    name="demo",
    description=__doc__,
    task_dir=HERE,
    build=build,
    max_tokens=80,
    max_connections=200,
    gpu_memory_utilization=0.3,
    final=True,
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
