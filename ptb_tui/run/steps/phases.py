"""The phases of one attempt of the final evaluation: what runs one after another, each in a sandbox of its own.

An inspect task is one phase. A task with a paid grader has two, so that the model never sees a key and the grader never
sees the model. An attempt ends with the first phase that fails; the last one writes the metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from ptb_tui.content.tasks import Task
from ptb_tui.run.graders import VARIABLE, Grader, grader_of
from ptb_tui.run.steps import answer_box
from ptb_tui.run.steps.answer_box import Extra as Extra
from ptb_tui.sandbox.base import Bind, Sandbox

Beside = Callable[[Path, Sandbox], AbstractContextManager[Extra]]
"""Called with a folder of ours on disk for the helper's own and the sandbox of the phase; StepError when it cannot be
had, with its cause."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One command of an attempt.

    `arguments` are added to the common command line. `network` "gateway" lets it reach `allow`, rules HOST or HOST:PORT
    of `sandbox.egress`, and nothing else; a port of 127.0.0.1 is found inside at the same port. `keys` are names of
    settings whose values go into its environment. `model`: whether it sees the model and the base model.

    `keep` are files and folders below the task folder that this phase leaves for those after it: they are copied,
    without links and within bounds, to the evaluation's folder, and from there into the task folder of every later
    phase of the same seed and token limit. With `once` a phase that has succeeded is not run again by a later attempt
    of that seed and limit. `cache` is kept in the same way even when the phase fails, and given back to the phase
    itself, so that what was paid for is not asked for again.
    """

    name: str = "evaluate"
    arguments: tuple[str, ...] = ()
    network: Literal["none", "gateway"] = "none"
    allow: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    model: bool = True
    keep: tuple[str, ...] = ()
    cache: tuple[str, ...] = ()
    once: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[Bind, ...] = ()
    beside: Beside | None = None


ANSWERS, GRADES = "outputs/answers.jsonl", "grades"  # below the task folder


def graded(grader: Grader, grading: Mapping[str, object] | None = None) -> tuple[Phase, ...]:
    """The two phases of a task with a paid grader. The first sees the model and neither a key nor a network; the second
    the grader's host alone, the answers, and what the grader has said so far. `grading` of `task.toml`:
    `coverage`, the share of items that must get a grade, and `regrade`, how many are graded twice.
    """
    given = [(name, grading[name]) for name in ("coverage", "regrade") if name in grading] if grading else []
    options = [word for name, value in given for word in (f"--{name}", str(value))]
    keys = (grader.key,)
    env = {VARIABLE: grader.url}
    return (
        Phase("generate", ("--generate-only",), keep=(ANSWERS,), once=True),
        Phase(
            "grade",
            ("--skip-generation", "--grades-dir", GRADES, *options),
            network="gateway",
            allow=(grader.allow,),
            keys=keys,
            model=False,
            cache=(GRADES,),
            env=env,
        ),
    )


def phases_of(task: Task, values: Mapping[str, str]) -> tuple[Phase, ...]:
    """The phases of one attempt on `task`, in order; `values` are the site's settings, with `graders.VARIABLE` for what
    the run's endpoints say. StepError or ConfigError when a setting that the task needs is missing or no use.
    """
    grader = grader_of(task.info.required_api_keys, values)
    if grader is not None:
        grading = (task.file.model_extra or {}).get("grading")
        return graded(grader, grading if isinstance(grading, dict) else None)
    if answer_box.wants_box(task):
        return (Phase(beside=partial(answer_box.beside, task.folder)),)
    return (Phase(),)
