#!/usr/bin/env python3
"""Final evaluation of AIME 2025, run by the organiser: exact value of the last number, a seed for every sample."""

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
    final=True,
    max_tokens=16000,
    max_connections=6,
    gpu_memory_utilization=0.8,
)

if __name__ == "__main__":
    sys.exit(ptb_eval.main(SPEC))
