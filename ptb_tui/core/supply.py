"""Questions about what a site keeps for runs (CLIs, images, the cache of the hub) and about work under way there."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkQuery(_Model):
    """A piece of work on the site, with its log from a byte offset on."""

    kind: Literal["work"] = "work"
    work: int
    offset: int = 0


class WorkView(_Model):
    """Answer to `WorkQuery`. `log` ends at the offset `next`; `done` of `total` bytes, None where nobody knows."""

    kind: Literal["work"] = "work"
    id: int
    what: str
    subject: str = ""
    state: Literal["running", "done", "failed", "lost"]
    words: str = ""
    done: int | None = None
    total: int | None = None
    log: str = ""
    next: int = 0
    error: dict[str, str] | None = None
    started: str = ""


class ImagesQuery(_Model):
    """Container images. `recipe` asks for the definition of one, `root` for one made from a folder of the site."""

    kind: Literal["images"] = "images"
    recipe: str = ""
    root: str = ""


class ImageFile(_Model):
    """One image on disk."""

    name: str
    file: str
    digest: str = ""
    size: int
    current: bool
    built: str = ""
    source: str = ""
    changed: bool | None = None  # since it was built, the recipe; None where that cannot be told


class ImageRow(_Model):
    """One name: a recipe, an image, or both."""

    name: str
    words: str = ""
    role: str = ""
    recipe: bool = True
    building: str = ""  # by whom
    current: ImageFile | None = None
    older: tuple[ImageFile, ...] = ()


class ImagesView(_Model):
    """Answer to `ImagesQuery`. `definition` is what was asked for by `recipe`."""

    kind: Literal["images"] = "images"
    folder: str
    program: str = ""
    images: tuple[ImageRow, ...] = ()
    definition: str = ""


class DataQuery(_Model):
    """What of the hub is cached, and which tasks have their items. `only` is an id or a pattern of the hub's; `ask`
    asks the hub how large the rest is; without names `tasks` is about all of them."""

    kind: Literal["data"] = "data"
    what: Literal["hub", "tasks", "both"] = "hub"
    only: str = ""
    ask: bool = False
    tasks: tuple[str, ...] = ()


class RepoRow(_Model):
    """One repository of the hub."""

    what: Literal["model", "dataset"]
    id: str
    state: Literal["cached", "partial", "absent"]
    commit: str = ""
    size: int | None = None  # here when cached, else at the hub where that was asked
    words: str = ""
    remedy: str = ""


class ItemFile(_Model):
    """One file of a task's items. `count` is of its items; `words` say what is wrong with it."""

    name: str
    path: str
    size: int = 0
    count: int = 0
    sha256: str = ""
    origin: Literal["fetched", "supplied", "changed"] = "supplied"
    words: str = ""


class SourceRow(_Model):
    """One source of a task's items. `files` is path → sha256 as it was fetched, empty before; `size` and `problem` are
    what the hub or the address says when it is asked."""

    where: str
    use: str = "items"
    revision: str = ""
    files: dict[str, str] = {}
    count: int | None = None
    gated: bool = False
    size: int | None = None
    problem: str = ""
    remedy: str = ""


class TaskDataRow(_Model):
    """The data of one task. `pin`: fixed by data.toml, by the lock of the store, or by nothing yet; empty without
    sources."""

    name: str
    state: Literal["missing", "partial", "fetched", "unpinned", "changed", "supplied"]
    pin: Literal["pinned", "locked", "unpinned", ""] = ""
    gated: bool = False
    files: tuple[ItemFile, ...] = ()
    sources: tuple[SourceRow, ...] = ()
    folder: str = ""
    words: str = ""
    remedy: str = ""


class DataView(_Model):
    """Answer to `DataQuery`. `store` is where the items of tasks are."""

    kind: Literal["data"] = "data"
    home: str = ""
    free: int | None = None
    filling: str = ""  # by whom
    repos: tuple[RepoRow, ...] = ()
    store: str = ""
    fetching: str = ""  # by whom
    tasks: tuple[TaskDataRow, ...] = ()


class AgentsQuery(_Model):
    """Agents and their CLIs. `ask` asks the sources of the CLIs, over the network, which version is the newest."""

    kind: Literal["agents"] = "agents"
    ask: bool = False


class AgentRow(_Model):
    """One agent. `version` is what its next run gets; `source` says where from, in words. Times are UTC text."""

    name: str
    label: str = ""
    cli: str = ""
    version: str = ""
    digest: str = ""
    source: str = ""
    ready: bool = True  # whether a run would have a CLI
    newest: str = ""
    newest_asked: str = ""
    last_run: int | None = None
    last_used: str = ""
    problem: str = ""


class AgentsView(_Model):
    """Answer to `AgentsQuery`."""

    kind: Literal["agents"] = "agents"
    store: str
    updates: str = "store"
    agents: tuple[AgentRow, ...] = ()
    problems: tuple[str, ...] = ()
