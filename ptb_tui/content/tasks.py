"""Task folders: data about a benchmark, and what goes into the sandbox (E §1.1, §1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.content.lookup import Content
from ptb_tui.content.reading import read_json_model, read_toml
from ptb_tui.core.errors import ContentError


class Info(BaseModel):
    """`info.json`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    benchmark: str
    disallowed_data_examples: tuple[str, ...] = ()
    allowed_data_examples: tuple[str, ...] = ()
    required_api_keys: tuple[str, ...] = ()


class Rung(BaseModel):
    """One stage of the evaluation ladder: a token limit (None is the script's own) and how often it is tried."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    max_tokens: int | None = None
    tries: int = Field(ge=1, le=99)


class Final(BaseModel):
    """`[final]` of `task.toml`: the final evaluation."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    seeds: tuple[int, ...] = ()
    ladder: tuple[Rung, ...] = (Rung(tries=4), Rung(tries=3), Rung(tries=2))
    limit: int = -1  # items; -1 is all of them
    attempt_timeout_s: float = Field(default=28_800, gt=0)
    tokens_flag: str = "--max-tokens"
    seed_only_samples: bool = True
    identical_failures: int = Field(default=3, ge=1)  # stop after as many fast failures with the same last words


class TaskFile(BaseModel):
    """`task.toml`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    v: Literal[1] = 1
    inspect: bool = True
    items: int | None = None
    final: Final = Final()


@dataclass(frozen=True, slots=True)
class Task:
    """One benchmark."""

    name: str
    folder: Path
    label: str
    info: Info
    file: TaskFile
    test_data: Path | None

    @property
    def final_script(self) -> Path:
        """What the organiser runs; agents never see it."""
        hidden = self.folder / "evaluate_final_eval.py"
        return hidden if hidden.is_file() else self.folder / "evaluate.py"


def load_task(content: Content, name: str) -> Task:
    """Read a task folder. NotFound or ContentError naming the missing file."""
    folder = content.folder("tasks", name)
    info = read_json_model(folder / "info.json", Info, f"task {name} has no info.json (benchmark, allowed data, keys)")
    toml = folder / "task.toml"
    file = read_toml(toml, TaskFile, {"final": Final}) if toml.is_file() else TaskFile()
    for needed in ("evaluate.py", "benchmark.txt"):
        if not (folder / needed).is_file():
            raise ContentError(f"{folder / needed}: task {name} lacks this file")
    data = folder / "test_data.json"
    label = (folder / "benchmark.txt").read_text("utf-8").strip()
    return Task(name, folder, label, info, file, data if data.is_file() else None)
