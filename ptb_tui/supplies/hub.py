"""Models and data sets of the hub that runs may need, and what of it this site has (H §5.4, Appendix A).

The layout below HF_HOME is the hub library's own, so whatever it or the original's script cached is found. What we
cached has a record `<HF_HOME>/ptb/<repository>.json`: the commit and every file with its size. Only a whole snapshot
counts as cached.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ptb_tui.core import files
from ptb_tui.core.errors import ContentError, NotFound
from ptb_tui.core.explain import explain

Kind = Literal["model", "dataset"]
_ID = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?$"
MAX_RECORD = 64 << 20  # bytes: a data set of a hundred thousand files fits


@dataclass(frozen=True, slots=True)
class Repo:
    """One repository of the hub."""

    kind: Kind
    id: str

    @property
    def folder(self) -> str:
        """Its folder in `<HF_HOME>/hub`."""
        return "--".join((f"{self.kind}s", *self.id.split("/")))

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelEntry(_Entry):
    """One model of the manifest."""

    model: str = Field(pattern=_ID)


class DatasetEntry(_Entry):
    """One data set of the manifest: which parts agents were seen to load. A whole repository is cached."""

    dataset: str = Field(pattern=_ID)
    splits: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    config: str | None = None


class Manifest(_Entry):
    """`containers/hub_manifest.json`."""

    v: Literal[1] = 1
    models: tuple[ModelEntry, ...]
    datasets: tuple[DatasetEntry, ...]

    @staticmethod
    def read(path: Path) -> Manifest:
        """From the file. ContentError names file and place."""
        try:
            return Manifest.model_validate_json(path.read_bytes())
        except OSError as error:
            raise ContentError(f"{path}: cannot be read: {error.strerror}") from error
        except ValidationError as error:
            sections: dict[str, type[BaseModel]] = {"models": ModelEntry, "datasets": DatasetEntry}
            raise ContentError(explain(error, str(path), Manifest, sections)) from error

    def repos(self, only: str = "") -> tuple[Repo, ...]:
        """Models, then data sets, each once; those of an id or a pattern such as "Qwen/*". NotFound when none fits."""
        every = [Repo("model", entry.model) for entry in self.models]
        every += [Repo("dataset", entry.dataset) for entry in self.datasets]
        wanted = only.casefold()
        chosen = [
            repo
            for repo in dict.fromkeys(every)
            if not only or repo.id == only or fnmatch.fnmatchcase(repo.id.casefold(), wanted)
        ]
        exact = [repo for repo in chosen if repo.id == only]
        if not chosen:
            near = difflib.get_close_matches(only, [repo.id for repo in every], n=1, cutoff=0.6)
            hint = f"did you mean {near[0]!r}?" if near else "a pattern is like 'Qwen/*'"
            raise NotFound(f"nothing in containers/hub_manifest.json is called {only!r}", hint=hint)
        return tuple(exact or chosen)


def home(values: Mapping[str, str]) -> Path:
    """HF_HOME of the settings, else where the hub library keeps its cache."""
    value = values.get("HF_HOME", "") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    return Path(os.path.abspath(os.path.expanduser(value)))


def record_file(cache: Path, repo: Repo) -> Path:
    """What we know about a repository that we cached."""
    return cache / "ptb" / f"{repo.folder}.json"


@dataclass(frozen=True, slots=True)
class State:
    """What a site has of a repository: `cached`, `partial` (does not count) or `absent`. `ours`: we recorded it."""

    state: Literal["cached", "partial", "absent"]
    commit: str = ""
    size: int = 0
    files: int = 0
    ours: bool = False
    words: str = ""


def state(cache: Path, repo: Repo) -> State:
    """Look at the files, never at the hub. A recorded repository is compared with its record file by file; of another
    one it is checked that no link leads nowhere and, for models, that every file of weights an index names is there.
    """
    top = cache / "hub" / repo.folder
    record = files.read_object(record_file(cache, repo), MAX_RECORD)
    if record is not None and isinstance(record.get("files"), list):
        return _recorded(top, record)
    commit = (files.read_bytes(top / "refs" / "main", 4096) or b"").decode("utf-8", "replace").strip()
    snapshot = top / "snapshots" / commit
    if not commit or "/" in commit or not snapshot.is_dir():
        return State("partial", words="no snapshot of main") if top.is_dir() else State("absent")
    size = count = 0
    for path in _files(snapshot):
        try:
            size += path.stat().st_size
        except OSError:
            return State("partial", commit, words=f"{path.name} is not there")
        count += 1
    missing = _missing_of_model(snapshot) if repo.kind == "model" else "" if count else "it holds no file"
    if missing:
        return State("partial", commit, size, count, words=missing)
    return State("cached", commit, size, count, words="cached by others; files are there, not compared with the hub")


def _recorded(top: Path, record: Mapping[str, Any]) -> State:
    commit, listed = str(record.get("commit", "")), record["files"]
    snapshot, size, missing = top / "snapshots" / commit, 0, 0
    for entry in listed:
        try:
            whole = (snapshot / str(entry[0])).stat().st_size == entry[1]
        except (OSError, LookupError, TypeError, ValueError):
            whole = False
        size += int(entry[1]) if whole else 0
        missing += not whole
    if missing:
        return State("partial", commit, size, len(listed), True, f"{missing} of {len(listed)} files are not there")
    return State("cached", commit, size, len(listed), True)


def _files(folder: Path) -> Iterator[Path]:
    for base, _, names in os.walk(folder):
        yield from (Path(base) / name for name in names)


def _missing_of_model(snapshot: Path) -> str:
    """What a model needs and a snapshot lacks; empty when nothing does."""
    if not (snapshot / "config.json").is_file():
        return "config.json is not there"
    for kind in ("model.safetensors", "pytorch_model.bin"):
        index = files.read_json(Path(os.path.realpath(snapshot / f"{kind}.index.json")), MAX_RECORD)
        shards = index.get("weight_map") if isinstance(index, dict) else None
        if isinstance(shards, dict):
            lacking = sorted({str(name) for name in shards.values() if not (snapshot / str(name)).is_file()})
            if not lacking:
                return ""
            return f"{lacking[0]} is not there"
        if (snapshot / kind).is_file():
            return ""
    return "no weights are there"
