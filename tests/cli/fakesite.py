"""A site in one object, with a small demo sweep; also a program: `python fakesite.py SCENARIO ARGS…` runs the command
line against it, so that signals, pipes and terminals can be tested for real."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from ptb_tui.core.action import Action, Collect, Receipt, RunRef, Submit
from ptb_tui.core.errors import NotFound, SiteUnreachable
from ptb_tui.core.query import (
    Check,
    DoctorQuery,
    DoctorReport,
    PlanAnswer,
    PlanQuery,
    Query,
    QueueQuery,
    QueueView,
    Range,
    RunDetail,
    RunList,
    RunQuery,
    RunRow,
    RunsQuery,
    ScoresAnswer,
    ScoresQuery,
    SlotView,
    StepView,
    TraceChunk,
    TraceQuery,
)
from ptb_tui.core.scores import Board, CellScore, MethodScore, VerdictSummary, Worth
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import Plan, PlanCell, Problem, ProtocolRef, RunSpec, Sweep
from ptb_tui.core.verdict import VerdictState

HOSTILE = "\x1b[31mred\x1b]0;title\x07 [bold]not markup[/bold] [/x] \u202eevil\x9b2J"
FIRST = 1_790_000_001
STEPS = 6
ENDS = {"reference": ("scored", ""), "cheat": ("flagged", "C"), "quitter": ("no_model", "")}


def spec_of(sweep: Sweep, agent: str, config: str) -> RunSpec:
    return RunSpec(
        agent=agent,
        config=config,
        benchmark=sweep.tasks[0],
        base_model=sweep.models[0],
        hours=sweep.hours,
        gpus=sweep.gpus,
        protocol=ProtocolRef(name=sweep.protocol, fingerprint="f" * 8),
        sweep=sweep.digest,
        sweep_name=sweep.name,
    )


class FakeSite:
    """Runs of a sweep go one stage further each time somebody looks. Scenarios bend this in one way each."""

    def __init__(self, scenario: str = "", name: str = "local") -> None:
        self.name = name
        self.scenario = scenario
        self.specs: dict[int, RunSpec] = {}
        self.stage: dict[int, int] = {}
        self.receipts: dict[str, Receipt] = {}
        self.done: list[tuple[str, Action]] = []
        self.asked: list[Query] = []
        self.failures = 3 if scenario == "lost" else 0
        self.closed = False
        self.heard = False

    def row(self, number: int) -> RunRow:
        spec, stage = self.specs[number], self.stage[number]
        worth, letters = ENDS.get(spec.agent, ("scored", ""))
        if self.scenario == "unjudged" and spec.agent == "cheat":
            worth, letters = "unjudged", ""
        ended = stage >= 3
        return RunRow(
            id=number,
            method=spec.method,
            benchmark=spec.benchmark,
            model=spec.base_model,
            state="queued" if stage == 0 else "done" if ended else "running",
            step="evaluate#1" if stage >= 2 else "agent",
            phase="solve" if stage == 1 else "",
            worth=worth if ended else "running",
            letters=letters if ended else "",
            seconds=None if stage == 0 else 42.0,
            remaining=318.0 if 0 < stage < 3 else None,
            sweep=spec.sweep,
            sweep_name=spec.sweep_name,
            steps_ended=STEPS if ended else max(0, stage - 1) * 5,
            steps_total=STEPS,
        )

    def advance(self) -> None:
        if self.scenario not in ("stuck", "mute", "deaf"):
            self.stage = {number: min(3, stage + 1) for number, stage in self.stage.items()}

    def plan(self, sweep: Sweep) -> Plan:
        cells = []
        for agent in sweep.agents:
            spec = spec_of(sweep, agent.agent, agent.config)
            known = [number for number, have in self.specs.items() if have.cell == spec.cell]
            problems: tuple[Problem, ...] = ()
            if self.scenario == "blocked" and agent.agent == "cheat":
                problems = (Problem(words=f"no such agent {HOSTILE}", remedy="look into agents/"),)
            action: Any = "blocked" if problems else "submit" if not known else "exists"
            cells.append(PlanCell(spec=spec, action=action, run_id=max(known, default=None), problems=problems))
        return Plan(sweep=sweep, cells=tuple(cells), sandbox="process")

    def board(self, protocol: str) -> Board:
        methods = []
        for number, spec in self.specs.items():
            row = self.row(number)
            worth = Worth(row.worth)
            cell = CellScore(
                method=spec.method,
                benchmark=spec.benchmark,
                model=spec.base_model,
                worth=worth,
                run_id=number,
                raw=0.825,
                stderr=0.013,
                used=None if not worth.counts else 0.004 if worth.uses_baseline else 0.825,
                letters=row.letters,
                reason=f"reason of {spec.agent} {HOSTILE}",
                evidence=("60 of 60 training documents match", "demo-003", "demo-004", "demo-005"),
            )
            methods.append(MethodScore(method=spec.method, protocol=protocol, score=cell.used, cells=(cell,)))
        baselines = {"local/demo-base": {"demo": 0.004}}
        return Board(protocol=protocol, baselines=baselines, methods=tuple(methods), benchmarks=("demo",))

    async def ask(self, query: Query) -> Any:
        self.asked.append(query)
        match query:
            case RunsQuery():
                numbers = query.ids or tuple(self.specs)
                rows = [self.row(number) for number in numbers if number in self.specs]
                return RunList(runs=tuple(row for row in rows if query.sweep in ("", row.sweep, row.sweep_name)))
            case RunQuery():
                return self.detail(query.run)
            case TraceQuery():
                return self.trace(query)
            case PlanQuery():
                return PlanAnswer(plan=self.plan(query.sweep))
            case QueueQuery():
                rows = [self.row(number) for number in self.specs]
                slots = (SlotView(name="cpu:0", busy=True, holder=str(FIRST)), SlotView(name="cpu:1", busy=False))
                return QueueView(slots=slots, running=tuple(rows[:1]), waiting=tuple(rows[1:]))
            case ScoresQuery():
                return ScoresAnswer(board=self.board(query.protocol or "demo"))
            case DoctorQuery():
                bad = "bad" if self.scenario == "bad" else "ok"
                checks = (
                    Check(name="disk", state="ok", words="9 GB free"),
                    Check(
                        name="sandbox", state=bad, words="bwrap missing" if bad == "bad" else "bwrap", remedy="install"
                    ),
                )
                return DoctorReport(checks=checks)
        raise AssertionError(query)

    def detail(self, text: str) -> RunDetail:
        found = [number for number in self.specs if str(number).startswith(text)]
        if len(found) != 1:
            raise NotFound(f"no run {text}", hint="ptb-tui runs lists them")
        verdict = VerdictSummary(
            judge="data_contamination_judge",
            output_id="contamination",
            state=VerdictState.FLAGGED,
            flagged=("contamination_detected",),
            justification=HOSTILE,
            engine="rules",
            evidence=("line 3 of train_data.jsonl",),
        )
        step = StepView(number=1, name="agent", state="done", seconds=42.0, limit_s=660.0, cause="agent_exit")
        row = self.row(found[0]).model_copy(update={"reason": HOSTILE, "worth": "flagged", "letters": "C"})
        return RunDetail(
            row=row, steps=(step,), verdicts=(verdict,), metrics={"accuracy": 0.825}, files={"a.txt": 1234}
        )

    TRACE = "first line\nsecond \x1b[31mline\x1b[0m\nthird\n"

    def trace(self, query: TraceQuery) -> TraceChunk:
        size = len(self.TRACE)
        offset = max(0, size + query.offset) if query.offset < 0 else min(query.offset, size)
        end = min(size, offset + 10)
        return TraceChunk(
            run_id=FIRST, offset=offset, next=end, size=size, text=self.TRACE[offset:end], ended=end == size
        )

    async def watch(self, query: Query, *, interval: float = 1.0) -> AsyncGenerator[Any, None]:
        if isinstance(query, TraceQuery):
            chunk = self.trace(query)
            yield chunk
            while not chunk.ended:
                chunk = self.trace(query.model_copy(update={"offset": chunk.next}))
                yield chunk
            while self.scenario == "stuck":  # written to no more, but not ended
                await asyncio.sleep(interval)
            return
        before: dict[int, RunRow] = {}
        while True:
            if self.failures:
                self.failures -= 1
                raise SiteUnreachable("ssh: connection reset")
            if self.scenario == "mute" and self.heard:
                raise SiteUnreachable("ssh: no route to host")
            rows = {row.id: row for row in (await self.ask(query)).runs}
            changed = [row for number, row in rows.items() if before.get(number) != row]
            if changed or not before:
                self.heard = True
                yield RunList(runs=tuple(changed))
            before = rows
            self.advance()
            await asyncio.sleep(interval)

    async def do(self, action: Action, token: str) -> Receipt:
        if token in self.receipts:
            return self.receipts[token]
        self.done.append((token, action))
        refs: list[RunRef] = []
        files: tuple[str, ...] = ()
        if isinstance(action, Submit):
            for cell in self.plan(action.sweep).to_submit:
                number = FIRST + len(self.specs)
                self.specs[number], self.stage[number] = cell.spec, 0
                refs.append(RunRef(id=number, method=cell.spec.method))
        if isinstance(action, Collect):
            files = ("/results/_aggregated/board.json",)
        words = f"{action.kind} done"
        self.receipts[token] = Receipt(action=action.kind, token=token, words=words, runs=tuple(refs), files=files)
        return self.receipts[token]

    async def fetch(self, range: Range) -> bytes:  # noqa: A002
        return b""

    async def close(self) -> None:
        self.closed = True
        if self.scenario == "deaf":
            print("closing", flush=True)
            await asyncio.sleep(3600)


def seeded(scenario: str, sweep: Path) -> FakeSite:
    """A site whose runs of the sweep file have all ended."""
    from ptb_tui.core.spec import read_sweep

    site = FakeSite(scenario)
    for cell in site.plan(read_sweep(sweep)).cells:
        number = FIRST + len(site.specs)
        site.specs[number], site.stage[number] = cell.spec, 3
    return site


def run(scenario: str, argv: list[str]) -> int:
    import ptb_tui.cli as cli
    from ptb_tui.cli import call as calls

    if scenario == "crash":

        async def opener(settings: Settings, name: str) -> Any:
            raise RuntimeError("a secret mistake\nin two lines")
    else:
        sweep = os.environ.get("FAKE_SEED")
        site = seeded(scenario, Path(sweep)) if sweep else FakeSite(scenario)

        async def opener(settings: Settings, name: str) -> Any:
            site.name = name
            return site

    calls.OPENER = opener
    return cli.main(argv)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
