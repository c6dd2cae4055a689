"""This machine as a site: questions are answered from the files, actions change them (design §2, §6).

Files are the truth, so any number of `LocalSite`s may look at one root. An action is journalled under its token; the
same token gives the same receipt, and what it asked for is done once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ptb_tui.content.lookup import Content
from ptb_tui.core import clock, files
from ptb_tui.core import query as q
from ptb_tui.core.action import Action, Cancel, Collect, Dispatch, Evaluate, Judge, Receipt, Retry, RunRef, Submit
from ptb_tui.core.backend import Backend, Job, Place
from ptb_tui.core.errors import ConfigError, NotAllowed, NotFound, TokenConflict
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.scores import Board
from ptb_tui.core.settings import Settings, SiteConfig
from ptb_tui.core.spec import RunSpec, Sweep
from ptb_tui.results.records import RunRecord
from ptb_tui.results.store import RunStore, Scan, detail, find, row
from ptb_tui.run import locks, place

T = TypeVar("T")
TRACE_CHUNK = 1 << 18
KICK_S = 5.0  # how often a watcher looks whether the queue needs somebody
_TOKEN = re.compile(r"[A-Za-z0-9_.-]{1,128}")


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
        self.content = Content.of(settings.content)
        agents = self.content.names("agents")
        self.stores = [RunStore(Root(path), agents) for path in (self.root.path, *settings.extra_results)]
        self._kicked = 0.0

    async def close(self) -> None:
        """Nothing is held open."""

    async def ask(self, query: q.Query) -> Any:
        """Answer a query; the work happens in a thread."""
        return await asyncio.to_thread(self._answer, query)

    async def watch(self, query: q.Query, *, interval: float = 1.0) -> AsyncIterator[Any]:
        """The answer now, then what changed; looks after the queue while it watches."""
        before: Any = None
        rows: dict[int, q.RunRow] = {}
        while True:
            await asyncio.to_thread(self._look_after_queue)
            answer = await asyncio.to_thread(self._answer, query)
            if isinstance(answer, q.RunList):
                changed = tuple(run for run in answer.runs if rows.get(run.id) != run)
                gone = set(rows) - {run.id for run in answer.runs}
                if gone:  # what no longer matches is shown once more, as it is now
                    changed += (await asyncio.to_thread(self._runs, q.RunsQuery(ids=tuple(sorted(gone))))).runs
                rows = {run.id: run for run in answer.runs}
                if before is None or changed:
                    yield answer if before is None else answer.model_copy(update={"runs": changed})
            elif isinstance(answer, q.TraceChunk) and isinstance(query, q.TraceQuery):
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
        return await asyncio.to_thread(self._do, action, token)

    async def fetch(self, wanted: q.Range) -> bytes:
        """Bytes of a file of a run; never outside its directory."""
        return await asyncio.to_thread(self._fetch, wanted)

    # -- questions

    def _scan(self) -> Scan:
        """All runs of this root and of those that are only read; a method of an earlier root wins (E §5.2)."""
        runs: list[RunRecord] = []
        problems: list[str] = []
        taken: set[str] = set()
        for store in self.stores:
            scan = store.scan()
            fresh = {record.method for record in scan.runs} - {""}
            for method in sorted(fresh & taken):
                problems.append(f"{method}: also in another results root, which is left out")
            runs += [record for record in scan.runs if record.method not in taken]
            taken |= fresh
            problems += scan.problems
        return Scan(tuple(runs), tuple(problems))

    def _record(self, run: str) -> RunRecord:
        return find(self.root, run.removeprefix(f"{self.name}:"), self._scan().runs)

    def _answer(self, query: q.Query) -> Any:
        answers: dict[type, Callable[[Any], Any]] = {
            q.RunsQuery: self._runs,
            q.RunQuery: lambda query: detail(self.root, self._record(query.run)),
            q.TraceQuery: self._trace,
            q.PlanQuery: lambda query: q.PlanAnswer(plan=self.plan(query.sweep)),
            q.QueueQuery: lambda query: self._queue(),
            q.ScoresQuery: lambda query: q.ScoresAnswer(board=self._board(query.protocol, query.policy, query.methods)),
            q.DoctorQuery: lambda query: self._doctor(),
        }
        return answers[type(query)](query)

    def _runs(self, query: q.RunsQuery) -> q.RunList:
        scan = self._scan()
        rows = []
        for record in scan.runs:
            if query.ids and record.id not in query.ids:
                continue
            shown = row(record)
            text = f"{shown.id} {shown.method} {shown.path} {shown.state} {shown.worth}"
            failed = shown.state in ("failed", "lost") or shown.worth in ("failed", "unjudged", "quarantined")
            wanted = (
                (not query.active or record.active)
                and (not query.failed or failed)
                and (not query.match or query.match in text)
                and (not query.sweep or shown.sweep.startswith(query.sweep) or shown.sweep_name == query.sweep)
            )
            if wanted:
                rows.append(shown)
        return q.RunList(runs=tuple(rows), problems=scan.problems)

    def _trace(self, query: q.TraceQuery) -> q.TraceChunk:
        record = self._record(query.run)
        agent = record.agent_step
        ended = record.foreign or agent is None or agent.ended
        path = record.path / ("solve_out.txt" if query.raw else "solve_parsed.txt")
        if record.foreign and not path.is_file():
            path = record.path / "solve_out.txt"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            start = max(0, query.offset)
            return q.TraceChunk(run_id=record.id, offset=start, next=start, size=start, text="", ended=ended)
        try:
            size = os.fstat(fd).st_size
            offset = max(0, size + query.offset) if query.offset < 0 else min(query.offset, size)
            data = os.pread(fd, TRACE_CHUNK, offset)
        finally:
            os.close(fd)
        if len(data) == TRACE_CHUNK:  # end where a character ends, at a line end when there is one
            cut = data.rfind(b"\n") + 1
            data = data[:cut] if cut else data[: TRACE_CHUNK - 4]
        end = offset + len(data)
        text = data.decode("utf-8", "replace")
        return q.TraceChunk(
            run_id=record.id, offset=offset, next=end, size=size, text=text, ended=ended and end == size
        )

    def plan(self, sweep: Sweep) -> Any:
        """The plan of a sweep here."""
        from ptb_tui.run.plan import make_plan

        return make_plan(sweep, self.root, self.content, self.settings, self._site.sandbox)

    def _doctor(self) -> q.DoctorReport:
        from ptb_tui.site.doctor import report

        return report(self.settings, self.root, self.content)

    def _queue(self) -> q.QueueView:
        from ptb_tui.run.dispatch import slot_names

        slots = []
        for name in slot_names(self.root) if self.root.ptb.is_dir() else ():
            fd = locks.take_slot(self.root, name) if self.root.state.is_dir() else -1
            holder = locks.holder(self.root, name) if fd is None else ""
            slots.append(q.SlotView(name=name, busy=fd is None, holder=holder))
            if fd is not None and fd >= 0:
                os.close(fd)
        active = [row(record) for record in self._scan().runs if record.active]
        running = [run for run in active if run.state in ("running", "starting")]
        waiting = sorted((run for run in active if run not in running), key=lambda run: run.id)
        return q.QueueView(slots=tuple(slots), running=tuple(running), waiting=tuple(waiting))

    def _board(self, protocol: str, policy: str, methods: tuple[str, ...] = ()) -> Board:
        from ptb_tui.content.protocols import load_protocol
        from ptb_tui.results.collect import build_board, rules_of

        records = self._scan().runs
        name = protocol
        if not name:
            name = next((record.protocol for record in records if record.protocol), "1.2")
        rules = rules_of(load_protocol(self.content, name))
        return build_board(records, rules, policy=policy, methods=methods)

    # -- actions

    def _do(self, action: Action, token: str) -> Receipt:
        if not _TOKEN.fullmatch(token):
            raise NotAllowed(f"{token!r} is not a request token")
        journal = self.root.own("journal")
        done = journal / f"{token}.json"
        with contextlib.suppress(ValidationError):
            if (known := files.read_object(done)) is not None:
                if known["action"] != action.model_dump(mode="json"):
                    raise TokenConflict(f"request token {token} stands for another action")
                return Receipt.model_validate(known["receipt"])
        if isinstance(action, Collect) and self.root.path.is_dir() and not os.access(self.root.path, os.W_OK):
            words = f"{self.root.path} may only be read: nothing was written; `ptb-tui scores` shows the table"
            return Receipt(action="collect", token=token, words=words)
        files.ensure_writable(self.root.path, "the results root")
        files.ensure_writable(journal, "the journal")
        doers: dict[type, Callable[[Any, str], Receipt]] = {
            Submit: self._submit,
            Cancel: self._cancel,
            Judge: self._judge,
            Evaluate: self._evaluate,
            Retry: self._retry,
            Collect: self._collect,
            Dispatch: lambda action, token: Receipt(action="dispatch", words="looked after the queue"),
        }
        receipt = doers[type(action)](action, token).model_copy(update={"token": token})
        operator = action.operator or self.settings.operator
        record = {"v": 1, "t": clock.utc_text(), "operator": operator, "action": action.model_dump(mode="json")}
        files.create(done, files.dump({**record, "receipt": receipt.model_dump(mode="json")}))
        if not isinstance(action, Collect):
            self._backend().submit([Job(ref.id, token, (), 0, 0.0) for ref in receipt.runs])
        return receipt

    def _backend(self) -> Backend:
        package = Path(place.__file__).resolve().parents[1]
        beside = package.parent / "ptb"
        entry = beside if beside.is_file() else package / "__main__.py"
        env = {"PTB_ENV_FILE": str(self.settings.env_file.absolute())} if self.settings.env_file else {}
        where = Place(self.root.path, (sys.executable, "-I", str(entry)), self._site.slots, env)
        return load_backend(self._site.backend, where)

    @property
    def _site(self) -> SiteConfig:
        """Configuration of this site; a far end is configured there as `local`."""
        return self.settings.config.sites.get(self.name, SiteConfig())

    def _write_site(self) -> None:
        """The site's own part of the configuration, for dispatch, supervisors and steps."""
        import tomli_w

        site, path = self._site, self.root.ptb / "site.toml"
        if path.exists():
            return
        table = {"slots": site.slots, "scratch": site.scratch, "sandbox": site.sandbox, "max_hours": site.max_hours}
        files.replace(path, tomli_w.dumps({key: value for key, value in table.items() if value}))

    def _submit(self, action: Submit, token: str) -> Receipt:
        from ptb_tui.run import submit
        from ptb_tui.site import bundle

        plan = self.plan(action.sweep)
        blocked = [cell for cell in plan.cells if cell.action == "blocked"]
        if blocked:
            first = blocked[0].problems[0]
            raise NotAllowed(
                f"{blocked[0].spec.method}: {first.words} (and {len(blocked) - 1} more)", hint=first.remedy
            )
        files.ensure_writable(self.root.ptb, "our folder")
        self._write_site()
        submit.keep_sweep(self.root, action.sweep)
        digest = bundle.ensure(self.root, self.content)
        operator = action.operator or self.settings.operator
        refs = [
            submit.submit(
                self.root, cell.spec.model_copy(update={"bundle": digest, "operator": operator}), self.content
            )
            for cell in plan.to_submit
        ]
        others = [
            RunRef(id=cell.run_id, method=cell.spec.method, created=False, words=cell.why)
            for cell in plan.cells
            if cell.action in ("exists", "running") and cell.run_id is not None
        ]
        return Receipt(action="submit", words=f"{len(refs)} submitted, {len(others)} there", runs=(*refs, *others))

    def _ours(self, run: str) -> tuple[RunRecord, RunFiles, RunSpec]:
        record = self._record(run)
        if record.ptb is None:
            raise NotAllowed(f"run {record.id} was made by others; this version only reads it")
        files_of = RunFiles(record.ptb)
        spec = files.read_bytes(files_of.spec)
        if spec is None:
            raise NotFound(f"{files_of.spec} cannot be read")
        return record, files_of, RunSpec.model_validate_json(spec)

    def _bundle_content(self, spec: RunSpec) -> Content:
        folder = self.root.own("bundles") / spec.bundle
        return Content((folder,)) if folder.is_dir() else self.content

    def _cancel(self, action: Cancel, token: str) -> Receipt:
        from ptb_tui.run import submit

        record, _, spec = self._ours(action.run)
        if not record.active:
            return Receipt(action="cancel", words=f"run {record.id} has ended already", runs=(RunRef(id=record.id),))
        who = action.operator or self.settings.operator
        asked = submit.cancel(self.root, record.id, who, action.reason)
        words = f"run {record.id} will be cancelled" if asked else f"run {record.id} was cancelled before"
        return Receipt(action="cancel", words=words, runs=(RunRef(id=record.id, method=spec.method),))

    def _ended_run(self, run: str, what: str) -> tuple[RunRecord, RunFiles, RunSpec]:
        record, run_files, spec = self._ours(run)
        agent = record.agent_step
        if agent is None or not agent.ended:
            raise NotAllowed(f"run {record.id} cannot be {what} yet: its agent has not ended")
        if run_files.cancel.exists() and run_files.started:
            run_files.cancel.rename(run_files.cancel.with_name(f"cancel-{uuid.uuid4().hex[:8]}.json"))
        return record, run_files, spec

    def _judge(self, action: Judge, token: str) -> Receipt:
        from ptb_tui.run import submit

        record, run_files, spec = self._ended_run(action.run, "judged")
        content = self._bundle_content(spec)
        who = action.operator or self.settings.operator
        steps = submit.judge_steps(spec, content, action.judges, action.engine, who)
        names = submit.add_steps(self.root, run_files, steps, record.id)
        return Receipt(action="judge", words=f"asked for {', '.join(names)}", runs=(RunRef(id=record.id),))

    def _evaluate(self, action: Evaluate, token: str) -> Receipt:
        from ptb_tui.run import submit

        record, run_files, spec = self._ended_run(action.run, "evaluated")
        content = self._bundle_content(spec)
        step = submit.evaluate_step(spec, content, action.operator or self.settings.operator)
        names = submit.add_steps(self.root, run_files, [step], record.id)
        return Receipt(action="evaluate", words=f"asked for {', '.join(names)}", runs=(RunRef(id=record.id),))

    def _retry(self, action: Retry, token: str) -> Receipt:
        from ptb_tui.run import submit
        from ptb_tui.run.plan import token_of
        from ptb_tui.site import bundle

        record, _, spec = self._ours(action.run)
        if record.active:
            raise NotAllowed(f"run {record.id} is still under way", hint=f"ptb-tui cancel {record.id}")
        if not action.reason and record.assessment.worth in ("scored", "flagged"):
            raise NotAllowed(f"run {record.id} has a result; say why with --reason", hint="both results stay visible")
        attempts = sum(
            1
            for other in self._scan().runs
            if (other.method, other.benchmark, other.model) == spec.cell and not other.foreign
        )
        digest = bundle.ensure(self.root, self.content)
        fresh = spec.sealed(token=token_of(spec, attempts), bundle=digest, operator=action.operator)
        return Receipt(action="retry", words="submitted", runs=(submit.submit(self.root, fresh, self.content),))

    def _collect(self, action: Collect, token: str) -> Receipt:
        from ptb_tui.results.tables import write_board

        board = write_board(self.root.path, self._board(action.protocol, action.policy))
        return Receipt(action="collect", words=f"wrote {len(board.files)} files", files=board.files)

    # -- the rest

    def _look_after_queue(self) -> None:
        now = time.monotonic()
        if now - self._kicked < KICK_S:
            return
        self._kicked = now
        if place.pending(self.root) and os.access(self.root.ptb, os.W_OK):
            self._backend().submit([])

    def _fetch(self, wanted: q.Range) -> bytes:
        record = self._record(wanted.run)
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


def make(settings: Settings, root: Path) -> Callable[[], LocalSite]:
    """A maker for `serve`, which needs the site only at its first request."""
    return partial(LocalSite, settings, root)
