"""Judge folders: `judge.toml` and `prompt.md` (E §3.1, §3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ptb_tui.content.lookup import Content
from ptb_tui.content.reading import read_toml
from ptb_tui.core.errors import ContentError
from ptb_tui.core.verdict import JudgeSpec


@dataclass(frozen=True, slots=True)
class Judge:
    """One judge."""

    name: str
    folder: Path
    spec: JudgeSpec
    prompt: Path


def load_judge(content: Content, name: str) -> Judge:
    """Read a judge folder. NotFound or ContentError."""
    folder = content.folder("judges", name)
    prompt = folder / "prompt.md"
    if not prompt.is_file():
        raise ContentError(f"{prompt}: judge {name} lacks its prompt")
    return Judge(name, folder, read_toml(folder / "judge.toml", JudgeSpec), prompt)
