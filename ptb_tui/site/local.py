"""This machine as a site: questions are answered from the files, actions change them (design §2, §6).

Files are the truth, so any number of `LocalSite`s may look at one root. What a plain list of runs does not need is
imported at first use.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptb_tui.content.lookup import Content
from ptb_tui.core.backend import Backend, Place
from ptb_tui.core.config import SiteConfig
from ptb_tui.core.errors import ConfigError, NotAllowed, NotFound
from ptb_tui.core.layout import Root
from ptb_tui.core.rows import RunList, RunRow, RunsQuery
from ptb_tui.core.settings import Settings
from ptb_tui.results.records import RunRecord
from ptb_tui.results.store import Scan, find
from ptb_tui.run import place
from ptb_tui.site import listing

if TYPE_CHECKING:
    from ptb_tui.core.action import Action, Receipt
    from ptb_tui.core.query import Query, Range

KICK_S = 5.0  # how often a watcher looks whether the queue needs somebody


def load_backend(name: str, where: Place) -> Backend:
    """A backend by entry point, or one that came with this program. ConfigError names the known ones."""
    points = {point.name: point for point in entry_points(group="ptb_tui.backends")}
    if name in points:
        backend: Backend = points[name].load()(where)
        return backend
    if name in ("local",):
        backend = import_module(f"backends.{name}").create(where)
        return backend
    raise ConfigError(f"no backend {name!r}", hint=f"known: {', '.join(sorted({'local', *points}))}")


class LocalSite:
    """The site interface over a results root on this machine; `site/api.py` has the contract."""

    def __init__(self, settings: Settings, root: Path, name: str = "local") -> None:
        self.name = name
        self.settings = settings
        self.root = Root(Path(os.path.abspath(root)))
        self.content = Content.configured(settings)
        self.stores = listing.stores(self.root.path, settings, self.content)
        self._kicked = 0.0

    async def close(self) -> None:
        """Nothing is held open."""

    async def ask(self, query: Query) -> Any:
        """Answer a query; the work happens in a thread."""
        return await asyncio.to_thread(self._answer, query)

    async def watch(self, query: Query, *, interval: float = 1.0) -> AsyncIterator[Any]:
        """The answer now, then what changed; looks after the queue while it watches."""
        before: Any = None
        rows: dict[int, RunRow] = {}
        while True:
            await asyncio.to_thread(self._look_after_queue)
            answer = await asyncio.to_thread(self._answer, query)
            if isinstance(answer, RunList):
                changed = tuple(run for run in answer.runs if rows.get(run.id) != run)
                gone = set(rows) - {run.id for run in answer.runs}
                if gone:  # what no longer matches is shown once more, as it is now
                    changed += (await asyncio.to_thread(self._runs, RunsQuery(ids=tuple(sorted(gone))))).runs
                rows = {run.id: run for run in answer.runs}
                if before is None or changed:
                    yield answer if before is None else answer.model_copy(update={"runs": changed})
            elif query.kind == "trace":
                if before is None or answer.text or answer.ended:
                    yield answer
                query = query.model_copy(update={"offset": answer.next})
                if answer.ended:
                    return
                if answer.next < answer.size:
                    before = answer
                    continue
            elif answer != before:
                yield answer
            before = answer
            await asyncio.sleep(interval)

    async def do(self, action: Action, token: str) -> Receipt:
        """Carry out an action once per token."""
        from ptb_tui.site.actions import Doer

        return await asyncio.to_thread(Doer(self).do, action, token)

    async def fetch(self, wanted: Range) -> bytes:
        """Bytes of a file of a run; never outside its directory."""
        return await asyncio.to_thread(self._fetch, wanted)

    def scan(self) -> Scan:
        """All runs of this root and of those that are only read."""
        return listing.scan(self.stores)

    def record(self, run: str) -> RunRecord:
        """The run that is meant; NotFound or UsageError."""
        return find(self.root, run.removeprefix(f"{self.name}:"), self.scan().runs)

    def _answer(self, query: Query) -> Any:
        if query.kind == "runs":
            return self._runs(query)
        from ptb_tui.site.answers import answer

        return answer(self, query)

    def _runs(self, query: RunsQuery) -> RunList:
        scan = self.scan()
        wanted = listing.Wanted(query.active, query.failed, query.sweep, query.match, frozenset(query.ids))
        rows = tuple(RunRow.model_construct(**values) for values in listing.rows(scan, wanted))
        return RunList(runs=rows, problems=scan.problems)

    def program(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """How this program is started here by others: (command, what its environment needs besides)."""
        env = {"PTB_ENV_FILE": str(self.settings.env_file.absolute())} if self.settings.env_file else {}
        return (sys.executable, "-I", str(place.entry())), env

    def backend(self) -> Backend:
        """The scheduler of this site."""
        command, env = self.program()
        return load_backend(self.config.backend, Place(self.root.path, command, self.config.slots, env))

    @property
    def config(self) -> SiteConfig:
        """Configuration of this site; a far end is configured there as `local`."""
        return self.settings.config.sites.get(self.name, SiteConfig())

    def _look_after_queue(self) -> None:
        now = time.monotonic()
        if now - self._kicked < KICK_S:
            return
        self._kicked = now
        if place.pending(self.root) and os.access(self.root.ptb, os.W_OK):
            self.backend().submit([])

    def _fetch(self, wanted: Range) -> bytes:
        record = self.record(wanted.run)
        base = os.path.realpath(record.path)
        target = os.path.realpath(os.path.join(base, wanted.name))
        if os.path.commonpath((base, target)) != base or wanted.offset < 0:
            raise NotAllowed(f"{wanted.name!r} is not a file of run {record.id}")
        try:
            fd = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            raise NotFound(f"run {record.id} has no file {wanted.name!r}: {error.strerror}") from error
        try:
            return os.pread(fd, wanted.length, wanted.offset)
        except OSError as error:
            raise NotAllowed(f"{wanted.name!r} cannot be read: {error.strerror}") from error
        finally:
            os.close(fd)
