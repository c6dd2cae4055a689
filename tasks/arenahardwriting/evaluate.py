#!/usr/bin/env python3
"""Arena-Hard-v2.0 (Writing): creative writing, judged in two games a prompt against a reference model's answers.

The accuracy is the rate of wins. Judging needs OPENAI_API_KEY or OPENROUTER_API_KEY.
"""

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
    limit=32,
    coverage=0.95,
    fields=("id", "question"),
)

if __name__ == "__main__":
    sys.exit(ptb_graded.main(SPEC))
