"""Task folders: data about a benchmark, and what goes into the sandbox (E §1.1, §1.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ptb_tui.content import datafile
from ptb_tui.content.lookup import Content
from ptb_tui.content.reading import known_as, read_json_model, read_toml
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import ContentError

Beside = Literal["test_data.json", "items.jsonl", "baseline_answers.jsonl"]


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
    max_tokens: int | None = Field(default=None, ge=1)
    tries: int = Field(ge=1, le=99)


class Final(BaseModel):
    """`[final]` of `task.toml`: the final evaluation."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    seeds: tuple[int, ...] = ()
    ladder: tuple[Rung, ...] = Field(default=(Rung(tries=4), Rung(tries=3), Rung(tries=2)), min_length=1)
    limit: int = -1  # items; -1 is all of them
    attempt_timeout_s: float = Field(default=28_800, gt=0)
    tokens_flag: str = "--max-tokens"
    seed_only_samples: bool = True
    identical_failures: int = Field(default=3, ge=1)  # stop after as many fast failures with the same last words

    @model_validator(mode="after")
    def _measures(self) -> Final:
        if self.limit != -1 and self.limit < 1:
            raise ValueError(f"a limit of {self.limit} leaves nothing to evaluate; -1 is all items")
        if len(set(self.seeds)) != len(self.seeds) or any(seed < 0 for seed in self.seeds):
            raise ValueError("seeds are whole numbers from 0 on, each only once")
        return self


class TaskFile(BaseModel):
    """`task.toml`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    v: Literal[1] = 1
    inspect: bool = True
    items: int | None = None
    needs: tuple[Beside, ...] = ("test_data.json",)  # without which it cannot be run, when it has no data.toml
    final: Final = Final()


@dataclass(frozen=True, slots=True)
class Task:
    """One benchmark. `beside`: what goes one folder above its scripts and is there, name → file: `test_data.json`,
    `items.jsonl`, `baseline_answers.jsonl`. One in the task's folder goes before what was fetched into `store`.
    """

    name: str
    folder: Path
    label: str
    info: Info
    file: TaskFile
    beside: Mapping[str, Path] = field(default_factory=dict)
    data: datafile.DataFile | None = None  # `data.toml`
    store: Path = Path()  # the task's folder in the site's data store; need not exist

    @property
    def test_data(self) -> Path | None:
        """The items for the contamination checker, when they are there."""
        return self.beside.get(datafile.TEST_DATA)

    @property
    def needed(self) -> tuple[str, ...]:
        """Files beside the scripts without which the task cannot be run."""
        return self.data.needed if self.data else self.file.needs

    def checked(self, kit: Collection[str]) -> bool:
        """Whether agents get the contamination checker and a copy of the test items (E §1.1), by a protocol's `kit`."""
        items = datafile.TEST_DATA in self.needed or self.test_data is not None
        return items and "contamination_check.py" in kit and (datafile.TEST_DATA in kit or self.data is None)

    @property
    def final_script(self) -> Path:
        """What the organiser runs; agents never see it."""
        hidden = self.folder / "evaluate_final_eval.py"
        return hidden if hidden.is_file() else self.folder / "evaluate.py"


def load_task(content: Content, name: str, store: Path | None = None) -> Task:
    """Read a task folder. NotFound or ContentError naming the missing file.

    `store` is the site's data store, `core.datastore.data_store(results root)`; without it what the environment and
    the configuration of this account say, which is the same in the programs of the steps.
    """
    folder = content.folder("tasks", name)
    info = read_json_model(folder / "info.json", Info, f"task {name} has no info.json (benchmark, allowed data, keys)")
    toml = folder / "task.toml"
    file = read_toml(toml, TaskFile, {"final": Final}) if toml.is_file() else TaskFile()
    for needed in ("evaluate.py", "benchmark.txt"):
        if not (folder / needed).is_file():
            raise ContentError(f"{folder / needed}: task {name} lacks this file")
    try:
        label = (folder / "benchmark.txt").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ContentError(f"{known_as(folder / 'benchmark.txt')}: cannot be read as UTF-8 text: {error}") from error
    data = datafile.read_data_file(folder)
    fetched = (store if store is not None else data_store()) / name
    beside = {}
    for wanted in datafile.BESIDE:
        for place in (folder, fetched) if data else (folder,):
            if (place / wanted).is_file():
                beside[wanted] = place / wanted
                break
    return Task(name, folder, label, info, file, beside, data, fetched)
