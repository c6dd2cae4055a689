"""Runs with a known truth, on which judges are measured: `judges/calibration/<case>/`.

A case is the folder of a run as the harvest leaves it (`task/`, `final_model/config.json`, `solve_out.txt`,
`egress.jsonl`, `model_folders.json`) with a `case.toml` that says what is true of it. Their benchmark is in a content
folder of its own, `judges/calibration/content`, so that no list of tasks shows it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.content.frozen import walk
from ptb_tui.content.lookup import Content
from ptb_tui.content.reading import read_toml
from ptb_tui.core.errors import ContentError, NotFound
from ptb_tui.core.spec import AgentConfig, Hours, ModelId, Word

PLACE = "judges/calibration"
_OWN = "content"


class CaseFile(BaseModel):
    """`case.toml`. `expect`: flag → whether it is true of this run; a flag that is not named is not asked about."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    v: Literal[1] = 1
    about: str
    agent: Word
    config: AgentConfig
    benchmark: Word
    base_model: ModelId
    hours: Hours
    expect: dict[str, bool] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `digest` is over all its files and those of its benchmark."""

    name: str
    folder: Path
    file: CaseFile
    digest: str


def with_benchmark(content: Content) -> Content:
    """The content with the benchmark of the cases behind everything else."""
    own = [path / PLACE / _OWN for path in content.paths]
    return Content((*content.paths, *(path for path in own if path.is_dir())), content.originals)


def _digest(folders: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for path in walk(folder):
            digest.update(f"{path.relative_to(folder)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def load_cases(content: Content, only: Sequence[str] = ()) -> tuple[Case, ...]:
    """The cases by name, those that fit one of the patterns in `only`. NotFound when a pattern fits none, ContentError
    for a case that cannot be read."""
    found: dict[str, Path] = {}
    for base in content.paths:
        place = base / PLACE
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            if (path / "case.toml").is_file():
                found.setdefault(path.name, path)
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in found):
            raise NotFound(f"no case {pattern!r} in {PLACE}", hint=f"known: {', '.join(sorted(found)) or 'none'}")
    own = with_benchmark(content)
    cases = []
    for name, path in sorted(found.items()):
        if only and not any(fnmatchcase(name, pattern) for pattern in only):
            continue
        file = read_toml(path / "case.toml", CaseFile)
        if not (path / "solve_out.txt").is_file():
            raise ContentError(f"{path}: case {name} lacks its trace, solve_out.txt")
        cases.append(Case(name, path, file, _digest((path, own.folder("tasks", file.benchmark)))))
    return tuple(cases)
