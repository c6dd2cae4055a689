"""What judges said about runs with a known truth, as it is kept (decision 0020).

    <results>/_ptb/calibration/<judge>/<key>/subject.json          who was asked, with which words
                                            answers/<case>-<n>.json  one vote on one case
                                            kept/<case>-<n>/         what the judge printed

`key` is over engine, model, effort, endpoint, version and the digest of the words, so that what was measured with other
words never mixes. `judging.counting` makes numbers of it whenever somebody looks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ptb_tui.core import files
from ptb_tui.core.layout import Root
from ptb_tui.core.verdict import VerdictRecord, VerdictState

_SAID = (VerdictState.CLEAN, VerdictState.FLAGGED, VerdictState.UNREADABLE, VerdictState.CONTRADICTORY)
_MAX = 4 << 20


class Subject(BaseModel):
    """Who is measured: one engine and model with one judge's words."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    v: Literal[1] = 1
    judge: str
    engine: str
    model: str = ""
    effort: str = ""
    endpoint: str = ""
    version: str = ""
    prompt_hash: str = ""

    @property
    def key(self) -> str:
        """Name of the folder."""
        text = json.dumps(self.model_dump(mode="json", exclude={"v", "judge"}), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def words(self) -> str:
        """How a person calls it."""
        return " ".join(part for part in (self.engine, self.model, self.effort) if part)


class Answer(BaseModel):
    """One vote on one case. `expect` is what is true of the flags that the judge has."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    v: Literal[1] = 1
    case: str
    digest: str
    vote: int = 1
    expect: dict[str, bool]
    record: VerdictRecord
    seconds: float = 0.0
    tokens: dict[str, int] = Field(default_factory=dict)
    t: str = ""

    @property
    def said(self) -> bool:
        """Whether the judge answered at all; only else it is asked again. Asking until an answer fits is no measure."""
        return self.record.state in _SAID

    def flag(self, name: str) -> bool | None:
        """What it says about a flag; None without a verdict."""
        value = (self.record.verdict or {}).get(name)
        return value if isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Kept:
    """What is there of one subject."""

    subject: Subject
    folder: Path
    answers: tuple[Answer, ...] = field(default=())


def place(root: Root) -> Path:
    """The folder of all of it."""
    return root.own("calibration")


def folder_of(root: Root, subject: Subject) -> Path:
    """The folder of a subject."""
    return place(root) / subject.judge / subject.key


def keep(root: Root, subject: Subject, answer: Answer) -> None:
    """Keep an answer, in place of an earlier one of this vote. OSError."""
    folder = folder_of(root, subject)
    (folder / "answers").mkdir(parents=True, exist_ok=True)
    files.create(folder / "subject.json", files.dump(subject.model_dump(mode="json")))
    text = files.dump(answer.model_dump(mode="json"))
    files.replace(folder / "answers" / f"{answer.case}-{answer.vote}.json", text.encode("utf-8", "backslashreplace"))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def read(folder: Path) -> Kept | None:
    """What is there of one subject; None where there is none. Answers that cannot be read are passed over."""
    try:
        subject = Subject.model_validate(files.read_object(folder / "subject.json"))
    except ValidationError:
        return None
    answers = []
    for name in _names(folder / "answers"):
        try:
            answers.append(Answer.model_validate(files.read_object(folder / "answers" / name, _MAX)))
        except ValidationError:
            continue
    return Kept(subject, folder, tuple(answers))


def read_all(root: Root, judges: Iterable[str] = ()) -> list[Kept]:
    """Everything that was measured, of these judges or of all."""
    names = list(judges) or _names(place(root))
    found = [read(place(root) / judge / key) for judge in names for key in _names(place(root) / judge)]
    return [kept for kept in found if kept is not None and kept.answers]
