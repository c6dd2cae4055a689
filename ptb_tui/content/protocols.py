"""Protocols, `tasks/protocols/<name>.toml`: what makes two runs "the same benchmark" (design §4)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ptb_tui.content.lookup import Content
from ptb_tui.content.reading import read_toml
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
    prompt_without: tuple[str, ...] = ()  # parts of the prompt that this protocol leaves out
    timer: Literal["launch", "prepare"] = "launch"
    agents_network: Literal["full", "none", "gateway"] = "gateway"
    gpu_kind: str = "Nvidia H100"  # as the prompt calls it
    allow_no_gpu: bool = False
    process_agents: tuple[str, ...] = ()
    tmp_gib: float = Field(default=8, gt=0)  # of the agent's /tmp, where that is in memory
    scratch_gib: float = Field(default=1000, gt=0)  # what one step may hold on disk, its /tmp on disk included
    images: dict[Literal["agent", "judge", "evaluation"], str] = Field(default_factory=dict)
    interpreter: Literal["image", "host"] = "image"  # whose Python runs our scripts over an image
    checker_mode: Literal["strict", "compat"] = "strict"
    kit: tuple[str, ...] = ("contamination_check.py", "test_data.json")
    judges: tuple[ProtocolJudge, ...] = ()

    @model_validator(mode="after")
    def _seeds(self) -> Protocol:
        for task, seeds in self.seeds.items():
            if len(set(seeds)) != len(seeds) or any(seed < 0 for seed in seeds):
                raise ValueError(f"seeds of {task}: whole numbers from 0 on, each only once")
        return self


def load_protocol(content: Content, name: str) -> Protocol:
    """Read a protocol. NotFound lists the known ones."""
    path = content.file(f"tasks/protocols/{name}.toml") if "/" not in name else None
    if path is None:
        known = sorted({file.stem for base in content.paths for file in (base / "tasks" / "protocols").glob("*.toml")})
        raise NotFound(f"no protocol {name!r}", hint=f"known: {', '.join(known) or 'none'}")
    return read_toml(path, Protocol, {"judges": ProtocolJudge})
