#!/usr/bin/env python3
"""Final evaluation of Arena-Hard-v2.0 (Writing), run by the organiser: a seed for every prompt."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path.insert(0, str(HERE.parent / "shared"))
sys.path.insert(0, str(HERE / "evaluation_code"))

import arena_judging  # noqa: E402  # found through the path above
import ptb_graded  # noqa: E402

SPEC = ptb_graded.GradedSpec(
    name="arenahardwriting",
    description=__doc__,
    task_dir=HERE,
    messages=arena_judging.messages,
    grade=arena_judging.grade,
    check=arena_judging.with_baseline,
    max_new_tokens=16384,
    first_wait=5.0,
    limit=-1,
    coverage=1.0,
    fields=("id", "question"),
    final=True,
)

if __name__ == "__main__":
    sys.exit(ptb_graded.main(SPEC))
