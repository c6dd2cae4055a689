#!/usr/bin/env python3
"""AIME 2025: 30 problems of the American Invitational Mathematics Examination, whole numbers as answers.

The last number of the reply counts, for example "ANSWER: 204"; a \\boxed{} around it is ignored."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path[:0] = [str(HERE.parent / "shared")]

import ptb_aime  # noqa: E402  # found through the path above
import ptb_eval  # noqa: E402

SPEC = ptb_aime.spec(
    "aime2025",
    __doc__,
    HERE,
    max_tokens=16000,
    max_connections=6,
    gpu_memory_utilization=0.8,
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
