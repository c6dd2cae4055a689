"""Protocols, `tasks/protocols/<name>.toml`: what makes two runs "the same benchmark" (design §4)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.content.judges import load_judge
from ptb_tui.content.lookup import Content
from ptb_tui.content.reading import read_toml
from ptb_tui.content.tasks import Task
from ptb_tui.core.errors import NotFound
from ptb_tui.core.spec import EngineName


class ProtocolJudge(BaseModel):
    """`[[judges]]` of a protocol."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    judge: str
    votes: int = Field(default=1, ge=1, le=9)
    effect: Literal["baseline", "quarantine", "none"] = "none"
    required: bool = False
    engine: EngineName = "codex"


class Protocol(BaseModel):
    """One protocol file. Scores are fractions; `baselines` is model → task → score."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    v: Literal[1] = 1
    name: str
    label: str = ""
    tasks: tuple[str, ...] = Field(min_length=1)
    models: tuple[str, ...] = Field(min_length=1)
    weights: dict[str, float] = Field(default_factory=dict)
    baselines: dict[str, dict[str, float]] = Field(default_factory=dict)
    seeds: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    templates: dict[str, str] = Field(default_factory=dict)
    prompt: str = "prompt.md"
    timer: Literal["launch", "prepare"] = "launch"
    agents_network: Literal["full", "none", "gateway"] = "gateway"
    allow_no_gpu: bool = False
    process_agents: tuple[str, ...] = ()
    tmp_gib: float = Field(default=8, gt=0)  # of the agent's /tmp, where that is in memory
    scratch_gib: float = Field(default=1000, gt=0)  # what one step may hold on disk, its /tmp on disk included
    images: dict[Literal["agent", "judge", "evaluation"], str] = Field(default_factory=dict)
    interpreter: Literal["image", "host"] = "image"  # whose Python runs our scripts over an image
    checker_mode: Literal["strict", "compat"] = "strict"
    kit: tuple[str, ...] = ("contamination_check.py", "test_data.json")
    judges: tuple[ProtocolJudge, ...] = ()


def load_protocol(content: Content, name: str) -> Protocol:
    """Read a protocol. NotFound lists the known ones."""
    path = content.file(f"tasks/protocols/{name}.toml") if "/" not in name else None
    if path is None:
        known = sorted({file.stem for base in content.paths for file in (base / "tasks" / "protocols").glob("*.toml")})
        raise NotFound(f"no protocol {name!r}", hint=f"known: {', '.join(known) or 'none'}")
    return read_toml(path, Protocol, {"judges": ProtocolJudge})


def _files(folder: Path) -> Iterable[Path]:
    return (
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    )


def fingerprint(content: Content, protocol: Protocol, task: Task) -> str:
    """sha256 over the bytes that decide a run under this protocol: its file, the prompt, the task with the shared
    part, templates, judge folders and tools. First 16 hex digits."""
    parts: list[tuple[str, Path]] = []
    file = content.file(f"tasks/protocols/{protocol.name}.toml")
    prompt = content.file(f"tasks/prompts/{protocol.prompt}")
    parts += [(name, path) for name, path in (("protocol", file), ("prompt", prompt)) if path is not None]
    folders = {
        f"task/{task.name}": task.folder,
        "shared": content.shared("tasks/shared"),
        "templates": content.shared("tasks/templates"),
        "tools": content.shared("judges/tools"),
        **{f"judge/{entry.judge}": load_judge(content, entry.judge).folder for entry in protocol.judges},
    }
    for name, folder in folders.items():
        if folder is not None:
            parts += [(f"{name}/{path.relative_to(folder)}", path) for path in _files(folder)]
    digest = hashlib.sha256()
    for name, path in sorted(parts):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
