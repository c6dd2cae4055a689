"""`--batch`: plan a sweep, submit what is missing, watch, collect, and say what every cell is worth (design §6, §9).

Nothing here is needed for the runs to go on: it may be stopped at any time and started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from ptb_tui.core.action import REGISTRY, Collect, Receipt, Submit
from ptb_tui.core.clock import monotonic
from ptb_tui.core.errors import Detached, IntegrityError, NotAllowed, SiteUnreachable, Timeout
from ptb_tui.core.query import PlanQuery, RunList, RunRow, RunsQuery, ScoresAnswer, ScoresQuery
from ptb_tui.core.scores import Board, CellScore, Worth
from ptb_tui.core.spec import Plan, PlanCell, Sweep, digest_of
from ptb_tui.core.states import State
from ptb_tui.present import numbers, progress, prompt, report, scores
from ptb_tui.present import plan as plan_view
from ptb_tui.present.output import ReaderGone

if TYPE_CHECKING:
    from ptb_tui.present.output import Output
    from ptb_tui.site.api import Site

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a batch. `command` is what a person types to come back; times are seconds."""

    command: str = "ptb-tui --batch FILE"
    dry_run: bool = False
    yes: bool = False
    timeout: float | None = None
    operator: str = ""
    interval: float = 1.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    patience: float = 600.0  # without an answer from the site, when there is no timeout
    grace: float = 60.0  # for a submitted run to be seen at all


def row_ended(row: RunRow) -> bool:
    """Whether all steps of a run have ended; runs of others have no states and are never waited for."""
    if row.steps_total:
        return row.steps_ended >= row.steps_total
    return not row.state or row.state in {state.value for state in State if state.ended}


async def wait_for(site: Site, ids: Sequence[int], out: Output) -> int:
    """Wait until all steps of these runs have ended, saying what changes; the exit code of design §9 for them."""
    rows: dict[int, RunRow] = {}
    said: dict[int, str] = {}
    async for answer in site.watch(RunsQuery(ids=tuple(ids))):
        for row in answer.runs:
            rows[row.id] = row
            now = f"{row.step}: {row.state}" if not row_ended(row) else ": ".join(filter(None, (row.worth, row.reason)))
            if said.get(row.id) != now and out.as_json:
                out.record({"kind": "run", **row.model_dump(mode="json")})
            elif said.get(row.id) != now:
                out.note(f"run {row.id} {now}")
            said[row.id] = now
        if len(rows) == len(set(ids)) and all(map(row_ended, rows.values())):
            break
    worths = {row.worth for row in rows.values()}
    if worths & {Worth.UNJUDGED, Worth.QUARANTINED}:
        return IntegrityError.exit_code
    counting = {worth.value for worth in Worth if worth.counts}
    return int(not worths <= counting)


def submit_token(plan: Plan) -> str:
    """The token of a submission: equal for the same sweep on the same state of affairs, so that two who ask at once
    submit once, and another one when a cell has changed or needs a further attempt (the token of its spec says which),
    so that filling gaps later is a new request."""
    cells = [[*cell.spec.cell, cell.action, cell.run_id, cell.spec.token] for cell in plan.cells]
    return digest_of({"sweep": plan.sweep.digest, "cells": cells})[:32]


def exit_code(cells: Iterable[PlanCell], boards: Iterable[Board]) -> int:
    """Design §9 over the sweep's cells: 5 when one is unjudged or quarantined, else 1 when one does not count."""
    scored: dict[tuple[str, str, str, str], CellScore] = {
        (board.protocol, cell.method, cell.benchmark, cell.model): cell
        for board in boards
        for method in board.methods
        for cell in method.cells
    }
    found = [scored.get((cell.spec.protocol.name, *cell.spec.cell)) for cell in cells]
    if any(cell is not None and cell.worth in (Worth.QUARANTINED, Worth.UNJUDGED) for cell in found):
        return 5
    return 0 if all(cell is not None and cell.worth.counts for cell in found) else 1


async def run_batch(site: Site, sweep: Sweep, options: Options, out: Output) -> int:
    """Carry out a sweep and return the exit code of its results.

    Raises NotAllowed when something blocks it (nothing was changed), Detached when interrupted, Timeout when
    `options.timeout` passed, SiteUnreachable when the site gave no answer for too long. Runs go on in the last three.
    """
    batch = _Batch(site, sweep, options, out)
    stop = asyncio.Event()
    with _interrupts(stop, out):
        work = asyncio.create_task(batch.work())
        halt = asyncio.create_task(stop.wait())
        await asyncio.wait({work, halt}, timeout=options.timeout, return_when=asyncio.FIRST_COMPLETED)
        halt.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=2)
            raise batch.left_early(interrupted=stop.is_set())
        try:
            return work.result()
        except ReaderGone:
            raise batch.left_early(interrupted=True) from None


@contextlib.contextmanager
def _interrupts(stop: asyncio.Event, out: Output) -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP sets `stop`; a second ends the process. Ignored ones (nohup) stay ignored."""
    loop = asyncio.get_running_loop()
    installed: list[signal.Signals] = []

    def interrupted() -> None:
        if stop.is_set():
            if out.controls:
                with contextlib.suppress(OSError):
                    os.write(1, b"\x1b[?25h\n")  # the cursor may be hidden
            os._exit(Detached.exit_code)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(RuntimeError, ValueError):  # not the main thread
                loop.add_signal_handler(number, interrupted)
                installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)


class _Batch:
    """One pass over a sweep."""

    def __init__(self, site: Site, sweep: Sweep, options: Options, out: Output) -> None:
        self.site, self.sweep, self.options, self.out = site, sweep, options, out
        self.phase = "plan"
        self.labels: dict[tuple[str, str, str], progress.Label] = {}
        self.seen: dict[int, progress.Seen] = {}
        self.ids: tuple[int, ...] = ()
        self.lost: SiteUnreachable | None = None
        self.news = asyncio.Event()
        self.answered: float | None = None  # when the first list came
        self.progress: progress.Progress | None = None

    async def work(self) -> int:
        plan = await self._plan()
        if self.options.dry_run:
            return 0
        await self._submit(plan)
        self.progress = progress.choose(self.out)
        try:
            await self._follow()
        finally:
            self.progress.close()
        boards = await self._collect(plan)
        code = exit_code(plan.cells, boards)
        words = scores.headline(code)
        if self.out.as_json:
            self.out.record({"event": "end", "exit_code": code, "words": words.text})
        else:
            self.out.line()
            self.out.line(words.text, words.colour)
        return code

    def left_early(self, *, interrupted: bool) -> Detached | Timeout | SiteUnreachable:
        """The error that says what goes on and how to come back."""
        back = f"come back with: {self.options.command}"
        if self.phase == "plan":
            words = "nothing was submitted"
        elif self.phase == "submit":
            words = "interrupted while submitting: what was submitted goes on, the same command fills what is missing"
        else:
            open_runs = len(self.ids) - sum(row_ended(seen.row) for seen in self.seen.values())
            words = f"{numbers.count(open_runs, 'run')} {'goes' if open_runs == 1 else 'go'} on"
            if not open_runs:
                words = "every run has ended, the scores were not collected"
        if interrupted:
            return Detached(words, hint=back)
        if self.lost is not None:
            return SiteUnreachable(f"{self.lost.message}; {words}", hint=back)
        return Timeout(words, hint=back)

    async def _plan(self) -> Plan:
        plan = (await self.site.ask(PlanQuery(sweep=self.sweep))).plan
        if self.out.as_json:
            self.out.record(plan_view.record(plan))
        else:
            plan_view.show(self.out, plan)
        if blocking := plan_view.blocking(plan):
            for words in blocking:
                self.out.note(f"blocked: {words}")
            raise NotAllowed(
                f"{numbers.count(len(blocking), 'thing')} in the way of this sweep; nothing was submitted",
                hint=blocking[0] if self.out.as_json else "",  # people have just read it
            )
        agents = {cell.spec.agent for cell in plan.cells}
        plain = len(agents) == len({cell.spec.method for cell in plan.cells})
        for cell in plan.cells:
            spec = cell.spec
            label = progress.Label(spec.agent if plain else spec.method, spec.benchmark, spec.base_model)
            self.labels[spec.cell] = label
        return plan

    async def _submit(self, plan: Plan) -> None:
        ids = [cell.run_id for cell in plan.cells if cell.run_id is not None and cell.action in ("running", "exists")]
        wanted = plan.to_submit
        if wanted:
            number, gpus = len(wanted), sum(cell.spec.gpus for cell in wanted)
            if gpus and not self.options.yes and prompt.can_ask(self.out):
                question = REGISTRY[Submit].confirm.format(n=number)
                if not await prompt.confirmed(self.out, f"{question} {numbers.gpu_hours(plan.gpu_hours)}"):
                    raise NotAllowed("not confirmed; nothing was submitted", hint="--yes submits without a question")
            self.phase = "submit"
            action = Submit(sweep=self.sweep, operator=self.options.operator)
            receipt = await self.site.do(action, submit_token(plan))
            self._show("submitted", receipt)
            ids += [run.id for run in receipt.runs]
        self.ids = tuple(dict.fromkeys(ids))
        self.phase = "wait"

    def _show(self, event: str, receipt: Receipt) -> None:
        if self.out.as_json:
            self.out.record({"event": event, **receipt.model_dump(mode="json")})
        else:
            report.receipt(self.out, receipt)

    async def _follow(self) -> None:
        """Until every run has ended all its steps."""
        if not self.ids or self.progress is None:
            return
        reader = asyncio.create_task(self._read())
        try:
            while not self._all_ended():
                self.progress.tick(self.seen)
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self.news.wait(), 1.0)
                self.news.clear()
                if reader.done():
                    reader.result()
            self.progress.tick(self.seen)
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    def _all_ended(self) -> bool:
        patient = self.answered is None or monotonic() - self.answered < self.options.grace
        return all(row_ended(self.seen[number].row) if number in self.seen else not patient for number in self.ids)

    async def _read(self) -> None:
        async def once() -> None:
            watch = self.site.watch(RunsQuery(ids=self.ids), interval=self.options.interval)
            async with contextlib.aclosing(cast("AsyncGenerator[RunList, None]", watch)) as answers:
                async for answer in answers:
                    self._heard()
                    self._take(answer)

        while True:
            await self._persist(once)
            await asyncio.sleep(self.options.first_pause)  # the site ended the watch by itself

    def _take(self, answer: RunList) -> None:
        now = monotonic()
        if self.answered is None:
            self.answered = now
        for row in answer.runs:
            before = self.seen.get(row.id)
            cell = (row.method, row.benchmark, row.model)
            label = self.labels.get(cell) or progress.Label(row.method, row.benchmark, row.model)
            seen = self.seen[row.id] = progress.Seen(row, now, label)
            if self.progress is not None and (before is None or _facts(before.row) != _facts(row)):
                self.progress.changed(seen)
        self.news.set()

    def _heard(self) -> None:
        if self.lost is not None:
            self.lost = None
            self._notice("site_back", f"site {self.site.name} answers again")

    def _notice(self, kind: str, words: str) -> None:
        if self.progress is not None:
            self.progress.notice(kind, words)
            self.news.set()

    async def _persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until the site answers: a lost site is said once, pauses double; SiteUnreachable after the patience."""
        loop = asyncio.get_running_loop()
        pause, since = self.options.first_pause, loop.time()
        while True:
            try:
                result = await attempt()
                self._heard()
                return result
            except SiteUnreachable as error:
                if self.lost is None:  # it may have answered in between
                    pause, since = self.options.first_pause, loop.time()
                    words = f"site {self.site.name} gives no answer ({error.message}); runs go on, trying again"
                    self._notice("site_lost", words)
                self.lost = error
                if self.options.timeout is None and loop.time() - since >= self.options.patience:
                    raise self.left_early(interrupted=False) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, self.options.longest_pause)

    async def _collect(self, plan: Plan) -> list[Board]:
        self.phase = "collect"
        boards = []
        for protocol in sorted({cell.spec.protocol.name for cell in plan.cells}):
            methods = tuple(sorted({c.spec.method for c in plan.cells if c.spec.protocol.name == protocol}))
            action, token = Collect(protocol=protocol, operator=self.options.operator), os.urandom(16).hex()
            receipt = await self._persist(partial(self.site.do, action, token))
            query = ScoresQuery(protocol=protocol, methods=methods)
            ask: Callable[[ScoresQuery], Awaitable[ScoresAnswer]] = self.site.ask
            board = (await self._persist(partial(ask, query))).board
            boards.append(board)
            if self.out.as_json:
                self._show("collected", receipt)
                self.out.record({"event": "scores", "board": board.model_dump(mode="json")})
                continue
            self.out.line()
            scores.board(self.out, board)
            if receipt.files:
                self.out.note(f"wrote {numbers.count(len(receipt.files), 'file')}: {', '.join(receipt.files)}")
        return boards


def _facts(row: RunRow) -> tuple[object, ...]:
    """What makes a change worth a line; durations do not."""
    return (row.state, row.step, row.phase, row.cause, row.flags, row.worth, row.letters, row.steps_ended)
