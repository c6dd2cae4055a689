"""The programs of the steps. Each ends with `<step folder>/result.json` and status 0 only when it is done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptb_tui.content.fingerprint import reference
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import Protocol
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


def same_benchmark(spec: RunSpec, content: Content, protocol: Protocol, task: Task) -> None:
    """StepError unless content and items are those that the run was submitted with: what is prepared, judged and
    evaluated is one benchmark, whatever is edited meanwhile. What names no digest is not compared."""
    now = reference(content, protocol, task, spec.prompt)
    if now.fingerprint != spec.protocol.fingerprint:
        raise StepError(
            f"the content has fingerprint {now.fingerprint}; the run was submitted with {spec.protocol.fingerprint}:"
            " its frozen copy was changed",
            cause="content_changed",
        )
    if spec.protocol.data and now.data != spec.protocol.data:
        places = ", ".join(str(path) for path in task.beside.values()) or f"none for {task.name}"
        raise StepError(f"the items are not those that the run was submitted with ({places})", cause="content_changed")


def template_of(protocol: Protocol, base_model: str) -> dict[str, str]:
    """What tells an evaluation script, the agent's and ours, the chat template of the assigned base model (E §1.6)."""
    name = protocol.templates.get(base_model, "")
    return {"PTB_TEMPLATE": name} if name else {}


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
    for folder, target in (("tasks/shared", work), ("tasks/templates", work / "templates")):
        for name, path in content.overlay(folder).items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / name)
    for source, target in (
        (task.folder / "evaluation_code", work / "evaluation_code"),
        (task.folder / "task_context", work),
    ):
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=unwanted)
    if not script.is_file():
        raise StepError(f"{script}: task {task.name} lacks its evaluation script", cause="prepare_failed")
    shutil.copyfile(script, work / script.name)
