"""The programs of the steps. Each ends with `<step folder>/result.json` and status 0 only when it is done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import Task
from ptb_tui.core import files
from ptb_tui.core.errors import PtbError, StepError
from ptb_tui.core.spec import RunSpec
from ptb_tui.run.copying import refusal


def conclude(step_folder: Path, work: Callable[[], dict[str, Any]]) -> int:
    """Run a step's work and record how it ended; returns the exit status.

    `work` returns facts, with a `cause` and `why` among them when the step has failed for a reason that is a result.
    A StepError is a failure with its cause, any other error of ours one of cause "unknown".
    """
    try:
        facts = work()
    except StepError as error:
        facts = {"cause": error.cause, "why": error.message}
    except PtbError as error:
        facts = {"cause": "unknown", "why": f"{error.message}; {error.hint}" if error.hint else error.message}
    except OSError as error:
        found = refusal(error, str(error.filename or "a file"))
        facts = {"cause": found.cause, "why": found.message}
    outcome = "failed" if facts.get("cause") else "done"
    record = {"v": 1, "outcome": outcome, "cause": "", "why": "", **facts}
    print(f"{outcome}{': ' + record['why'] if record['why'] else ''}", flush=True)
    files.replace(step_folder / "result.json", files.dump(record).encode("utf-8", "backslashreplace"))
    return 0 if outcome == "done" else 1


def read_spec(ptb: Path) -> RunSpec:
    """The spec of the run. StepError when it cannot be read."""
    raw = files.read_object(ptb / "spec.json")
    try:
        return RunSpec.model_validate(raw)
    except ValueError as error:
        raise StepError(f"{ptb / 'spec.json'} cannot be read: {error}") from error


def base_model_folder(content: Content, model: str) -> Path | None:
    """The folder of a base model `local/NAME`; None for one of the hub."""
    organisation, _, name = model.partition("/")
    if organisation != "local":
        return None
    found = content.shared(f"containers/models/{name}")
    if found is None:
        raise StepError(f"the base model {model} is in no content folder (containers/models/{name})")
    return found


def lay_out_task(work: Path, task: Task, content: Content, script: Path) -> None:
    """Fill a task folder: the evaluation script under the name it has, and what goes beside it (H §1.3)."""
    work.mkdir(parents=True, exist_ok=True)
    unwanted = shutil.ignore_patterns("__pycache__", ".*")
    pairs = (
        (content.shared("tasks/shared"), work),
        (content.shared("tasks/templates"), work / "templates"),
        (task.folder / "evaluation_code", work / "evaluation_code"),
        (task.folder / "task_context", work),
    )
    for source, target in pairs:
        if source is not None and source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=unwanted)
    if not script.is_file():
        raise StepError(f"{script}: task {task.name} lacks its evaluation script", cause="prepare_failed")
    shutil.copyfile(script, work / script.name)
