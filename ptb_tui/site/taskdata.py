"""The items of tasks, as a site answers and does: what it has, and fetching them (E §1.3)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ptb_tui.content.datafile import Fetched, HubSource
from ptb_tui.content.tasks import Task, load_task
from ptb_tui.core.action import FetchData, Receipt
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import NotFound, PtbError
from ptb_tui.core.supply import DataQuery, SourceRow, TaskDataRow
from ptb_tui.run import datastate, fetching
from ptb_tui.run.datasources import Online
from ptb_tui.site import supplies
from ptb_tui.supplies import claims, download, hub, hubcache
from ptb_tui.supplies.datalock import Lock, read_lock
from ptb_tui.supplies.hubapi import HubUnreachable

if TYPE_CHECKING:
    from ptb_tui.site.local import LocalSite


def _tasks(site: LocalSite, names: Sequence[str], store: Path) -> list[Task]:
    """The tasks named, else all; a broken folder of one that was not named is passed over: `doctor` names it."""
    found = []
    for name in names or site.content.names("tasks"):
        try:
            found.append(load_task(site.content, name, store))
        except PtbError:
            if names:
                raise
    return found


def _online(site: LocalSite, store: Path) -> Online:
    """For questions, which a person waits for: tried as often as a download, but without pauses."""
    values = site.settings.values
    fallback = hubcache.token({}, hub.home(values))
    web = download.Web(pause=_at_once)
    place = store / fetching.SOURCES
    return Online(place, supplies.endpoint(site), values, web=web, pause=_at_once, fallback=fallback)


def _at_once(seconds: float) -> None:
    """Try again at once."""


def rows(site: LocalSite, query: DataQuery) -> tuple[Path, str, tuple[TaskDataRow, ...]]:
    """The store, who fetches into it, and its tasks; with `ask`, what the hub and addresses say of what is missing."""
    store = data_store(site.root.path)
    lock, found = read_lock(store), []
    asked = _Asked(_online(site, store), lock)
    for task in _tasks(site, query.tasks, store):
        row = datastate.look(task, lock)
        if query.ask and row.state not in ("fetched", "supplied"):
            row = row.model_copy(update={"sources": asked.sources(task, row)})
        found.append(row)
    return store, claims.holder(store / fetching.CLAIM), tuple(found)


@dataclass(slots=True)
class _Asked:
    """What the hub and addresses say; a hub that gave no answer once is not asked again."""

    online: Online
    lock: Lock
    silent: dict[str, object] = field(default_factory=dict)

    def sources(self, task: Task, row: TaskDataRow) -> tuple[SourceRow, ...]:
        """The sources of a task, each with its size or with what stands in the way."""
        made = {(source.where, source.use, source.count): source for source in row.sources}
        for source in task.data.fetched if task.data else ():
            key = (source.where_from, source.use, source.count)
            made[key] = made[key].model_copy(update=self._source(task, source, made[key]))
        return tuple(made.values())

    def _source(self, task: Task, source: Fetched, row: SourceRow) -> dict[str, object]:
        if isinstance(source, HubSource):
            if source.gated and not self.online.has_token(source):
                return {"problem": f"{source.repo} is gated and there is no token", "remedy": self.online.terms(source)}
            if self.silent:
                return self.silent
        try:
            found = self.online.find(task.name, source, self.lock.get(source.where_from, source.revision))
        except PtbError as error:
            problem: dict[str, object] = {"problem": error.message, "remedy": error.hint}
            if isinstance(error, HubUnreachable):
                self.silent = problem
            return problem
        return {"size": (row.size or 0) + found.size, "revision": found.revision or row.revision}


def fetch(site: LocalSite, action: FetchData) -> Receipt:
    """Begin to fetch. NotFound for an unknown task, one without sources that was named, and a folder that is none."""
    store = data_store(site.root.path)
    tasks = _tasks(site, action.tasks, store)
    for task in tasks if action.tasks else ():
        if task.data is None:
            hint = f"its items are {'in its folder' if task.beside else f'put into {task.folder}'}"
            raise NotFound(f"task {task.name} has no data.toml: nothing is fetched for it", hint=hint)
    given = os.path.abspath(os.path.expanduser(action.given)) if action.given else ""
    if given and not os.path.isdir(given):
        raise NotFound(f"{given} is no folder of this site", hint="docs/tasks.md says what `--from DIR` holds")
    names = [task.name for task in tasks if task.data is not None]
    request = {
        "store": str(store),
        "content": [str(path) for path in site.content.paths],
        "tasks": names,
        "refresh": action.refresh,
        "given": given,
        "endpoint": supplies.endpoint(site),
    }
    subject = f"items of {', '.join(action.tasks) or 'all tasks'} into {store}"
    return supplies.begin(site, "data", subject, request)
