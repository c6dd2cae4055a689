#!/usr/bin/env python3
"""Final evaluation of HealthBench, run by the organiser: a seed for every conversation."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not (HERE / "ptb_eval.py").is_file():
    sys.path.insert(0, str(HERE.parent / "shared"))
sys.path.insert(0, str(HERE / "evaluation_code"))

import health_grading  # noqa: E402  # found through the path above
import ptb_graded  # noqa: E402

SPEC = ptb_graded.GradedSpec(
    name="healthbench",
    description=__doc__,
    task_dir=HERE,
    messages=health_grading.messages,
    grade=health_grading.grade,
    check=health_grading.checked,
    max_new_tokens=16384,
    first_wait=2.0,
    limit=-1,
    coverage=1.0,
    fields=("id", "messages", "rubrics"),
    final=True,
)

if __name__ == "__main__":
    sys.exit(ptb_graded.main(SPEC))
