"""What of a run a judge is shown, and its digest (E §3.6)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import Task
from ptb_tui.core import files, settings
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.spec import RunSpec
from ptb_tui.core.verdict import Evidence
from ptb_tui.evaluation.fingerprint import file_sha256, of_folder
from ptb_tui.judging.engines.rules import twin_of
from ptb_tui.run.diagnostics import exit_facts_of
from ptb_tui.run.steps import base_model_folder
from ptb_tui.supplies import hub


def _file(path: Path) -> Path | None:
    return path if path.is_file() and not path.is_symlink() else None


def _folder(path: Path) -> Path | None:
    return path if path.is_dir() and not path.is_symlink() else None


def _base_config(content: Content, model: str) -> Path | None:
    folder = base_model_folder(content, model)
    if folder is not None:
        return _file(folder / "config.json")
    return content.file(f"judges/tools/reference_configs/{model.replace('/', '_')}.json")


def _weights(content: Content, model: str) -> Path | None:
    """The folder with a model's weights, if it is there whole: in a content folder or in the site's cache."""
    if not model:
        return None
    if model.startswith("local/"):
        try:
            return base_model_folder(content, model)
        except StepError:
            return None
    cache, repo = hub.home(settings.load(cwd=Path("/")).values), hub.Repo("model", model)
    found = hub.state(cache, repo)
    return cache / "hub" / repo.folder / "snapshots" / found.commit if found.state == "cached" else None


def _given(task: Task, content: Content) -> frozenset[str]:
    """Digests of the files that a run gets with its task (H §1.3); one that cannot be read is passed over."""
    folders = (task.folder / "evaluation_code", task.folder / "task_context")
    paths = [*content.overlay("tasks/shared").values(), *task.folder.glob("*.py")]
    paths += [path for folder in folders for path in folder.rglob("*")]
    return frozenset(file_sha256(path) for path in paths if _file(path))


def evidence_of(run: RunFiles, spec: RunSpec, task: Task, content: Content) -> Evidence:
    """What the judge may look at. StepError when our own tools are missing."""
    tools = content.shared("judges/tools")
    if tools is None:
        raise StepError("the judges' tools are in no content folder (judges/tools)", cause="judge_failed")
    agent = next((folder for _, name, folder in run.step_folders() if name.kind == "agent"), None)
    run_dir = run.run_dir
    model = _folder(run_dir / "final_model")
    return Evidence(
        run_dir=run_dir,
        task_dir=_folder(run_dir / "task"),
        solve_out=_file(run_dir / "solve_out.txt"),
        solve_parsed=_file(run_dir / "solve_parsed.txt"),
        test_data=task.test_data,
        model_config=_file(model / "config.json") if model else None,
        base_config=_base_config(content, spec.base_model),
        tools=tools,
        benchmark=task.name,
        base_model=spec.base_model,
        agent=spec.agent,
        agent_config=spec.config,
        hours=spec.hours,
        agent_seconds=exit_facts_of(agent, agent).elapsed_s if agent else None,
        allowed_data=task.info.allowed_data_examples,
        disallowed_data=task.info.disallowed_data_examples,
        egress=_file(run.ptb / "egress.jsonl"),
        model_folders=_file(run.ptb / "model_folders.json"),
        base_weights=_weights(content, spec.base_model),
        twin_weights=_weights(content, twin_of(spec.base_model)),
        given=_given(task, content),
    )


def _task_digest(folder: Path | None) -> str:
    """Of a run whose harvest kept none; "" for a folder that cannot be read as a whole."""
    try:
        return of_folder(folder)[0] if folder is not None else ""
    except OSError:
        return ""


def evidence_hash(evidence: Evidence) -> str:
    """Digest of what the judge was shown, so that a verdict says on which evidence it stands."""
    shown: dict[str, str] = {}
    for name in ("solve_out", "solve_parsed", "test_data", "model_config", "base_config", "egress", "model_folders"):
        path: Path | None = getattr(evidence, name)
        shown[name] = file_sha256(path) if path is not None else ""
    task = files.read_object(evidence.run_dir / ".ptb" / "task.json")
    shown["task"] = str(task.get("digest", "")) if task is not None else _task_digest(evidence.task_dir)
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()
