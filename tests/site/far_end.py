"""A far end for the tests: a small site over a folder, served on stdin and stdout.

`python -m tests.site.far_end FOLDER [--idle S] [--ping S]`; `argv(folder)` gives the command.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ptb_tui.core.action import Action, Receipt
from ptb_tui.core.errors import NotFound, StepError
from ptb_tui.core.query import (
    DoctorReport,
    Query,
    QueueView,
    Range,
    RunDetail,
    RunList,
    RunQuery,
    RunRow,
    RunsQuery,
    TraceChunk,
    TraceQuery,
)
from ptb_tui.site import serve, wire

REPO = Path(__file__).resolve().parents[2]
FLOOD = 10_000


def argv(folder: Path, *options: str) -> tuple[str, ...]:
    return ("env", f"PYTHONPATH={REPO}", sys.executable, "-m", "tests.site.far_end", str(folder), *options)


def row(number: int, state: str = "RUNNING") -> RunRow:
    return RunRow(id=number, method="m", benchmark="b", model="x", state=state)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = {"a": value}
    return value


class FolderSite:
    """Reads `trace` (ended when `ended` exists) and `runs.json`; writes one line per action to `actions`."""

    def __init__(self, folder: Path) -> None:
        self.name = "folder"
        self.folder = folder
        self.counts: dict[str, int] = {"produced": 0, "cancelled": 0, "closed": 0}

    async def ask(self, query: Query) -> Any:
        if isinstance(query, RunsQuery):
            return RunList(runs=tuple(found for found in self._rows() if not query.ids or found.id in query.ids))
        if isinstance(query, RunQuery):
            return await self._run(query.run)
        if isinstance(query, TraceQuery):
            return self._chunk(query, query.offset)
        return QueueView() if query.kind == "queue" else DoctorReport()

    async def _run(self, name: str) -> RunDetail:
        metrics: dict[str, Any] | None = None
        if name == "slow":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.counts["cancelled"] += 1
                raise
        elif name == "missing":
            raise NotFound("no run \ud800 'missing'", hint="look at runs")
        elif name == "step":
            raise StepError("out of disk", cause="disk_full")
        elif name == "broken":
            raise KeyError("a mistake")
        elif name == "noisy":
            print("a stray print", flush=True)
            os.write(1, b'{"id": 1, "kind": "answer", "body": {}}\n')
            subprocess.run(["sh", "-c", "echo from a child; cat"], check=True)
        elif name == "huge":
            metrics = {"a": "x" * (5 << 20)}
        elif name == "odd":
            metrics = {"nan": float("nan"), "inf": float("inf"), "text": "\x1b[31m\u2028\x00é"}
        elif name == "surrogate":
            metrics = {"a": "\ud800"}
        elif name == "deep":
            metrics = nested(220)
        return RunDetail(row=row(1), metrics=metrics, facts=dict(self.counts))

    def _rows(self) -> list[RunRow]:
        try:
            return [row(int(number), state) for number, state in json.loads((self.folder / "runs.json").read_text())]
        except FileNotFoundError:
            return []

    def _chunk(self, query: TraceQuery, offset: int) -> TraceChunk:
        ended = (self.folder / "ended").exists()  # before the size: the writer ends it last
        size = os.path.getsize(self.folder / "trace")
        start = offset if offset >= 0 else max(0, size + offset)
        with open(self.folder / "trace", "rb") as file:
            file.seek(start)
            data = file.read(1000)
        stop = start + len(data)
        return TraceChunk(
            run_id=1, offset=start, next=stop, size=size, text=data.decode(), ended=ended and stop == size
        )

    async def watch(self, query: Query, *, interval: float = 1.0) -> AsyncIterator[Any]:
        try:
            if isinstance(query, TraceQuery) and query.run == "flood":
                for at in range(query.offset, FLOOD):
                    self.counts["produced"] += 1
                    yield TraceChunk(run_id=1, offset=at, next=at + 1, size=FLOOD, text="x" * 1000)
                yield TraceChunk(run_id=1, offset=FLOOD, next=FLOOD, size=FLOOD, text="", ended=True)
            elif isinstance(query, TraceQuery):
                chunk = self._chunk(query, query.offset)
                yield chunk
                while not chunk.ended:
                    newer = self._chunk(query, chunk.next)
                    if newer.text or newer.ended:
                        chunk = newer
                        yield chunk
                    else:
                        await asyncio.sleep(interval)
            else:
                before: dict[int, RunRow] = {}
                first = True
                while True:
                    rows = {found.id: found for found in self._rows()}
                    match = query.match if isinstance(query, RunsQuery) else ""
                    changed = [r for r in rows.values() if before.get(r.id) != r and (not first or match in r.state)]
                    if changed or first:
                        yield RunList(runs=tuple(changed))
                    before, first = rows, False
                    await asyncio.sleep(interval)
        finally:
            self.counts["closed"] += 1

    async def do(self, action: Action, token: str) -> Receipt:
        run = getattr(action, "run", "")
        log = self.folder / "actions"
        before = log.read_text().splitlines() if log.exists() else []
        if token not in before:
            while run == "wait" and not (self.folder / "go").exists():
                (self.folder / "waiting").touch()
                await asyncio.sleep(0.01)
            with log.open("a") as file:
                file.write(f"{token}\n")
            if run == "die":
                os._exit(9)
        return Receipt(action=action.kind, token=token, words="known" if token in before else "done")

    async def fetch(self, range: Range) -> bytes:  # noqa: A002
        with open(self.folder / range.name, "rb") as file:
            file.seek(range.offset)
            return file.read(range.length)

    async def close(self) -> None:
        (self.folder / "closed").touch()


def ready() -> wire.Ready:
    return wire.Ready(wire=wire.VERSION, version="0", pid=os.getpid(), host="here")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--idle", type=float, default=600)
    parser.add_argument("--ping", type=float, default=45)
    options = parser.parse_args()
    return serve.run(lambda: FolderSite(options.folder), ready(), idle_s=options.idle, ping_s=options.ping)


if __name__ == "__main__":
    sys.exit(main())
