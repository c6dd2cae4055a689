"""What a protocol is compared with, `tasks/references/<protocol>.toml`: instruct models, few-shot scores, published.

None of it decides a run, so none of it is part of a protocol's fingerprint.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.content.lookup import Content
from ptb_tui.content.reading import read_toml


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Instruct(_File):
    """The official instruct model of a base model, with its scores as fractions."""

    of: str
    scores: dict[str, float]


class Published(_File):
    """A row that was published: its score, spread and number of runs as far as they are known; times are H:MM:SS."""

    name: str
    score: float
    std: float | None = None
    n: int | None = Field(default=None, ge=1)
    time: str = ""
    time_std: str = ""


class References(_File):
    """One file of references. `fewshot` is base model → task → score."""

    v: Literal[1] = 1
    protocol: str
    instruct: dict[str, Instruct] = Field(default_factory=dict)
    fewshot: dict[str, dict[str, float]] = Field(default_factory=dict)
    published: tuple[Published, ...] = ()


def load_references(content: Content, protocol: str) -> References | None:
    """The references of a protocol; None when there are none. ContentError when the file is not understood."""
    path = content.file(f"tasks/references/{protocol}.toml") if "/" not in protocol else None
    return None if path is None else read_toml(path, References, {"instruct": Instruct, "published": Published})
