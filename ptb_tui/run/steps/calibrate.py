"""The program that asks judges about cases with a known truth: the step `judge` itself, for each of several folders.

It differs from that step in two things: the run lies on scratch and not below the results root, and the benchmark of
the cases is among the content.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ptb_tui.content.lookup import Content
from ptb_tui.core import files
from ptb_tui.core.layout import Root
from ptb_tui.run import processes
from ptb_tui.run.steps import conclude
from ptb_tui.run.steps.judge import work


def main(argv: Sequence[str]) -> int:
    """Internal verb: argv is `[FILE]`, an object with root, content (its folders in order) and jobs, each a list of
    `ptb_dir`, `step_folder`, `scratch`. Each step folder gets its result.json; the status is 0 when all were done."""
    asked = files.read_object(Path(argv[0])) or {}
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    processes.become_subreaper()
    root, content = Root(Path(str(asked["root"]))), Content(tuple(Path(str(path)) for path in asked["content"]))
    worst = 0
    for job in asked["jobs"]:
        ptb, step_folder, scratch = (Path(str(part)) for part in job)
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        worst = max(worst, conclude(step_folder, partial(work, ptb, step_folder, scratch, content, root)))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
