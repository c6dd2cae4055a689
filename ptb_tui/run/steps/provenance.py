"""What an evaluation was made with: code, image, data, template, versions, GPUs, grader (E §8.3 no. 26).

It is kept in the evaluation's record and in the facts of its step; `metrics.json` stays as the original writes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from ptb_tui.content.datafile import BESIDE
from ptb_tui.content.fingerprint import of_parts
from ptb_tui.content.frozen import walk
from ptb_tui.content.items import data_facts
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import Protocol
from ptb_tui.content.tasks import Task
from ptb_tui.evaluation import grading
from ptb_tui.run.erasing import erase
from ptb_tui.run.telemetry import Sampler
from ptb_tui.sandbox.base import Request, Sandbox

_ASK = """
import importlib.metadata, json, platform, sys
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""
_PACKAGES = ("inspect-ai", "vllm", "torch", "transformers", "safetensors", "openai")
_ASK_S = 300.0


def versions(sandbox: Sandbox, scratch: Path) -> dict[str, str]:
    """Versions of what measures, without importing it, asked in the sandbox; packages that are not installed are
    absent, and everything is when the sandbox does not answer."""
    place = scratch / "versions"
    erase(place)
    (place / "home").mkdir(parents=True)
    inside = sandbox.home_inside(place / "home")
    env = {"PATH": ":".join(sandbox.path()), "HOME": inside, "PYTHONNOUSERSITE": "1"}
    argv = (sandbox.python(), "-c", _ASK, *_PACKAGES)
    command = sandbox.command(Request(argv, place / "home", ".", env=env, scratch=place / "sandbox"))
    try:
        done = subprocess.run(
            command.argv,
            env=command.env,
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_S,
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"the sandbox does not tell its versions: {error}", flush=True)
        return {}
    finally:
        erase(place)
    return {str(name): str(version) for name, version in found.items()}


def code_digest(content: Content, task: Task) -> str:
    """Digest over everything that measures: the task's own scripts, what tasks share, the templates; 16 hex digits."""
    parts = {f"task/{path.relative_to(task.folder)}": path for path in walk(task.folder) if path.name not in BESIDE}
    for folder in ("tasks/shared", "tasks/templates"):
        parts |= {f"{folder}/{name}": path for name, path in content.overlay(folder).items()}
    return of_parts({name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in parts.items()})


def template(content: Content, protocol: Protocol, base_model: str) -> dict[str, str]:
    """Name and sha256 of the chat template that the organiser assigned to the base model; empty when unknown."""
    name = protocol.templates.get(base_model, "")
    path = content.file(f"tasks/templates/{name}") if name else None
    if path is None:
        return {}
    return {"name": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def gpus(scratch: Path, wanted: tuple[str, ...]) -> list[str]:
    """Names of the GPUs at hand. Prints who holds them, for a start that fails for memory (case C01)."""
    sample = Sampler([], scratch, wanted).sample()
    for line in sample.get("gpu_processes", ()):
        print(f"on the GPU: {line}", flush=True)
    return [str(row.get("name", "")) for row in sample.get("gpus", ())]


def of_evaluation(content: Content, protocol: Protocol, task: Task, base_model: str, image: str) -> dict[str, Any]:
    """The part of the provenance that decides what is measured. OSError when a file cannot be read."""
    return {
        "code": code_digest(content, task),
        "image": image,
        "data": data_facts(task),
        "template": template(content, protocol, base_model),
    }


def graders(out_dir: Path) -> dict[str, Any]:
    """What the paid grader of each seed and limit said of itself (`grading.record`); empty for a task without one."""
    found = {}
    for below, _, names in os.walk(out_dir / "kept"):
        if grading.CALLS in names and (said := grading.record(Path(below))):
            found[Path(below).relative_to(out_dir / "kept").parts[0]] = said
    return found
