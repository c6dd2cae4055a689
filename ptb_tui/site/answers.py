"""Answers of this machine to all questions but the list of runs, which `local` gives itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ptb_tui.core import query as q
from ptb_tui.core.spec import Plan, Sweep
from ptb_tui.results.store import detail, row
from ptb_tui.run import locks
from ptb_tui.site import (
    baseline,
    benchmark,
    calibrating,
    clis,
    credentials,
    evaluating,
    judging,
    reviewing,
    scoring,
    supplies,
    triaging,
)

if TYPE_CHECKING:
    from ptb_tui.site.local import LocalSite

TRACE_CHUNK = 1 << 18


def answer(site: LocalSite, query: q.Query) -> Any:
    """The answer to a query, as things are now."""
    answers: dict[str, Callable[[Any], Any]] = {
        "run": lambda query: run(site, query),
        "trace": lambda query: trace(site, query),
        "plan": lambda query: q.PlanAnswer(plan=plan(site, query.sweep)),
        "queue": lambda query: queue(site),
        "scores": lambda query: scoring.answer(site, query),
        "doctor": lambda query: doctor(site),
        "baselines": lambda query: baseline.answer(site, query),
        "protocols": lambda query: benchmark.protocols(site),
        "protocol_diff": lambda query: benchmark.diff(site, query),
        "prompt": lambda query: benchmark.prompt(site, query),
        "calibration": lambda query: calibrating.answer(site, query),
        "credentials": lambda query: credentials.credentials(site, query),
        "agents": lambda query: clis.agents(site, query),
        "triage": lambda query: triaging.answer(site, query),
        "flagged": lambda query: reviewing.flagged(site, query),
        "judging": lambda query: judging.answer(site, query),
        "evaluation": lambda query: evaluating.answer(site, query),
        "work": lambda query: supplies.work(site, query),
        "images": lambda query: supplies.images(site, query),
        "data": lambda query: supplies.data(site, query),
    }
    return answers[query.kind](query)


def run(site: LocalSite, query: q.RunQuery) -> q.RunDetail:
    """One run, each verdict with what was measured of its judge."""
    record = site.record(query.run)
    return calibrating.beside(site, record, detail(site.root, record))


def trace(site: LocalSite, query: q.TraceQuery) -> q.TraceChunk:
    """A piece of a run's trace; text never ends inside a character."""
    record = site.record(query.run)
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
    return q.TraceChunk(run_id=record.id, offset=offset, next=end, size=size, text=text, ended=ended and end == size)


def plan(site: LocalSite, sweep: Sweep) -> Plan:
    """The plan of a sweep here."""
    from ptb_tui.run.plan import make_plan

    return make_plan(sweep, site.root, site.content, site.settings, site.config.sandbox, site.config.endpoints)


def doctor(site: LocalSite) -> q.DoctorReport:
    """All checks."""
    from ptb_tui.site.doctor import report

    return report(site.settings, site.root, site.content)


def queue(site: LocalSite) -> q.QueueView:
    """Slots with their holders, and the runs that are under way or wait."""
    from ptb_tui.run.dispatch import slot_names

    slots = []
    for name in slot_names(site.root) if site.root.ptb.is_dir() else ():
        fd = locks.take_slot(site.root, name) if site.root.state.is_dir() else -1
        holder = locks.holder(site.root, name) if fd is None else ""
        slots.append(q.SlotView(name=name, busy=fd is None, holder=holder))
        if fd is not None and fd >= 0:
            os.close(fd)
    active = [row(record) for record in site.scan().runs if record.active]
    running = [run for run in active if run.state in ("running", "starting")]
    waiting = sorted((run for run in active if run not in running), key=lambda run: run.id)
    return q.QueueView(slots=tuple(slots), running=tuple(running), waiting=tuple(waiting))
