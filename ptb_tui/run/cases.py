"""A case with a known truth as a run directory, so that a judge sees what it sees of a run (decision 0020)."""

from __future__ import annotations

import shutil
from pathlib import Path

from ptb_tui.content.agents import load_agent
from ptb_tui.content.calibration import Case
from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import load_task
from ptb_tui.core import files
from ptb_tui.core.datastore import data_store
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.settings import Settings
from ptb_tui.evaluation import fingerprint
from ptb_tui.run import sandboxes
from ptb_tui.run.calibration_plan import Found
from ptb_tui.traces import parser_for
from ptb_tui.traces.render import render

OUTPUT = 8 << 20  # bytes of one file of a case, and of what a judge printed


def lay_out(root: Root, found: Found, case: Case, place_: Path, known: Settings, configured: str) -> RunFiles:
    """A run directory of a case in `place_`, as a harvest leaves one: task folder with what came with the task, trace,
    model's config, ledger. StepError, OSError."""
    spec = sandboxes.pin(root, found.spec(case), found.content, known, configured)
    run = RunFiles(place_ / spec.method / spec.run / ".ptb")
    run.steps.mkdir(parents=True)
    task = load_task(found.content, spec.benchmark, data_store(root.path))
    tools = found.content.overlay("judges/tools")
    kit = {name: tools[name] for name in found.protocol.kit if name in tools} | dict(task.beside)
    folder = run.run_dir / "task"
    if (case.folder / "task").is_dir():
        shutil.copytree(case.folder / "task", folder, symlinks=True)
    folder.mkdir(exist_ok=True)
    for name, path in {"evaluate.py": task.folder / "evaluate.py", **kit}.items():
        if not (folder / name).exists():
            shutil.copyfile(path, folder / name)
    if (case.folder / "final_model").is_dir():
        shutil.copytree(case.folder / "final_model", run.run_dir / "final_model", symlinks=True)
    trace = (case.folder / "solve_out.txt").read_bytes()
    files.replace(run.run_dir / "solve_out.txt", trace, durable=False)
    files.replace(run.run_dir / "solve_parsed.txt", _parsed(found.content, case, trace), durable=False)
    for name in ("egress.jsonl", "model_folders.json"):
        if (data := files.read_bytes(case.folder / name, OUTPUT)) is not None:
            files.replace(run.ptb / name, data, durable=False)
    digest, _ = fingerprint.of_folder(folder)
    files.replace(run.ptb / "task.json", files.dump({"v": 1, "digest": digest}), durable=False)
    files.replace(run.spec, files.dump(spec.to_file()), durable=False)
    return run


def _parsed(content: Content, case: Case, trace: bytes) -> bytes:
    """The readable form of the trace: the case's own, else made from it as for a run."""
    own = files.read_bytes(case.folder / "solve_parsed.txt", OUTPUT)
    if own is not None:
        return own
    parser = parser_for(load_agent(content, case.file.agent).trace)
    return "".join(map(render, (*parser.feed(trace), *parser.close()))).encode("utf-8", "replace")
