"""Where the files of a task's sources come from: the hub and addresses, or a folder that somebody filled (E §1.3)."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

from ptb_tui.content.datafile import Fetched, HubSource
from ptb_tui.core.errors import NotFound, PtbError
from ptb_tui.supplies import datacard, download
from ptb_tui.supplies.datalock import Pin
from ptb_tui.supplies.hub import Repo
from ptb_tui.supplies.hubapi import Hub, HubError, Listing, RemoteFile, digest_of

MAX_CARD = 1 << 20
_MAX_FILES = 20_000
Got = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of a source: its path there, its bytes if known, and what brings it here."""

    path: str
    size: int | None
    get: Callable[[Got], Path]


@dataclass(frozen=True, slots=True)
class Found:
    """A source at a revision; empty where there is none, or nobody can tell."""

    revision: str
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """Bytes of all files whose size is known."""
        return sum(piece.size or 0 for piece in self.pieces)


class Provider(Protocol):
    """Gives the files of sources."""

    def find(self, task: str, source: Fetched, pin: Pin | None) -> Found:
        """Its files, nothing fetched yet but a card. `pin` is what must be met again. PtbError with what to do."""
        ...


@dataclass(frozen=True, slots=True)
class Online:
    """The hub and the web. `cache` keeps what was fetched; `values` are the settings, for tokens."""

    cache: Path
    endpoint: str
    values: Mapping[str, str]
    web: download.Web = field(default_factory=download.Web)
    pause: Callable[[float], None] | None = None
    fallback: str = ""  # a token that the hub's own login left
    refresh: bool = False  # fetch again what lies at an address
    fresh: set[str] = field(default_factory=set)
    listings: dict[tuple[str, str], Listing] = field(default_factory=dict)

    def find(self, task: str, source: Fetched, pin: Pin | None) -> Found:
        """As the protocol says."""
        if not isinstance(source, HubSource):
            return Found("", (self._at(source.url),))
        hub, repo = self._hub(source), Repo("dataset", source.repo)
        asked = (pin.revision if pin else "") or source.revision or "main"
        if (repo.id, asked) not in self.listings:
            self.listings[repo.id, asked] = hub.listing(repo, asked)
        listing = self.listings[repo.id, asked]
        if re.fullmatch(r"[0-9a-f]{7,64}", asked) and not listing.commit.startswith(asked):
            raise HubError(
                f"{repo}: the hub answers with commit {listing.commit[:12]} when it is asked for {asked[:12]}"
            )
        known = {file.path: file for file in listing.files}
        if source.named:
            paths = datacard.named(known, source.named)
        else:
            paths = datacard.files_of(known, self._card(hub, repo, listing, known), source.config, source.split)
        return Found(listing.commit, tuple(self._piece(hub, repo, listing.commit, known[path]) for path in paths))

    def _at(self, url: str) -> Piece:
        target = download.url_path(self.cache, url)
        here = target.is_file() and not (self.refresh and url not in self.fresh)

        def get(got: Got) -> Path:
            if here:
                got(target.stat().st_size)
                return target
            got(download.size_of_part(target))
            self.web.fetch(url, target, got)
            self.fresh.add(url)
            return target

        return Piece(target.name, target.stat().st_size if here else self.web.offer(url).size, get)

    def terms(self, source: HubSource) -> str:
        """What a person does about a gated data set."""
        return self._hub(source).terms(Repo("dataset", source.repo))

    def has_token(self, source: HubSource) -> bool:
        """Whether an account is known for a data set."""
        return bool(self._token(source))

    def _token(self, source: HubSource) -> str:
        return next((self.values[name] for name in source.token if self.values.get(name)), self.fallback)

    def _hub(self, source: HubSource) -> Hub:
        if self.pause is not None:
            return Hub(self.endpoint, self._token(source), pause=self.pause)
        return Hub(self.endpoint, self._token(source))

    def _piece(self, hub: Hub, repo: Repo, commit: str, file: RemoteFile) -> Piece:
        target = download.hub_path(self.cache, repo, commit, file.path)

        def get(got: Got) -> Path:
            if target.is_file() and digest_of(target, file.large) == file.etag:
                got(file.size)
                return target
            target.parent.mkdir(parents=True, exist_ok=True)
            got(download.size_of_part(target))
            hub.fetch(repo, commit, file, target, got)
            return target

        if file.size > download.MAX_SOURCE:
            raise HubError(f"{repo}: {file.path} has {file.size:,} bytes, more than {download.MAX_SOURCE:,}")
        return Piece(file.path, file.size, get)

    def _card(self, hub: Hub, repo: Repo, listing: Listing, known: Mapping[str, RemoteFile]) -> str:
        card = known.get(datacard.CARD)
        if card is None or card.size > MAX_CARD:
            return ""
        path = self._piece(hub, repo, listing.commit, card).get(lambda _: None)
        return path.read_text("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with the files of sources: below `<owner>/<name>`, `<name>` or the task's name, or in it itself."""

    top: Path

    def find(self, task: str, source: Fetched, pin: Pin | None) -> Found:
        """As the protocol says. The revision is what `data.toml` or the lock says; hashes tell whether it is true."""
        revision = source.revision or (pin.revision if pin else "")
        problem: PtbError | None = None
        for folder in self.places(task, source.repo if isinstance(source, HubSource) else ""):
            if not isinstance(source, HubSource):
                name = download.url_path(Path(), source.url).name
                if (folder / name).is_file():
                    return Found(revision, (self._piece(folder, name),))
                continue
            try:
                return Found(revision, tuple(self._piece(folder, path) for path in self._paths(folder, source)))
            except datacard.NoSuchFiles as error:
                problem = problem or (error if folder != self.top else None)
        words = f"{self.top} has no files of {source.where_from}" + (f": {problem}" if problem else "")
        raise NotFound(words, hint="docs/tasks.md says how they may lie there")

    def places(self, task: str, repo: str = "") -> list[Path]:
        """Where to look, in this order."""
        names = (*filter(None, (repo, repo.rpartition("/")[2], task)), ".")
        return [path for path in dict.fromkeys(self.top / name for name in names) if path.is_dir()]

    def _paths(self, folder: Path, source: HubSource) -> list[str]:
        every = list(islice(_below(folder), _MAX_FILES))
        if source.named:
            return datacard.named(every, source.named)
        card = folder / datacard.CARD
        text = card.read_text("utf-8", "replace") if card.is_file() and card.stat().st_size <= MAX_CARD else ""
        return datacard.files_of(every, text, source.config, source.split)

    def _piece(self, folder: Path, path: str) -> Piece:
        size = (folder / path).stat().st_size

        def get(got: Got) -> Path:
            got(size)
            return folder / path

        return Piece(path, size, get)


def _below(folder: Path) -> Iterable[str]:
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            yield os.path.relpath(os.path.join(base, name), folder)


def combined(shas: Mapping[str, str]) -> str:
    """The `sha256` of a source: that of its file, or of the lines "<sha256>  <path>" of several, sorted by path."""
    if len(shas) == 1:
        return next(iter(shas.values()))
    return hashlib.sha256("".join(f"{sha}  {path}\n" for path, sha in sorted(shas.items())).encode()).hexdigest()
