"""Dispatching: a re-entrant function under a lock, called by whoever is around (design §2.3, local_queue C.5).

One pass settles runs that ended, adopts runs whose supervisor died, and starts what can start, resumed work first, then
by priority and id. It says when it next wants to be called. Standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.core.errors import PtbError
from ptb_tui.core.layout import Root
from ptb_tui.results.steps import Folded
from ptb_tui.run import locks, place, returning
from ptb_tui.run.now import next_job, steps_now

GLANCE_S = 0.02  # longer than a look at a lock takes


def gpus() -> list[str]:
    """UUIDs of this machine's GPUs; empty without `nvidia-smi`."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in answer.stdout.decode("utf-8", "replace").splitlines() if line.startswith("GPU-")]


def slot_names(root: Root) -> list[str]:
    """All slots of this site: its GPUs, and as many `cpu` slots as configured (one by default)."""
    count = place.site(root).get("slots")
    return [f"gpu:{uuid}" for uuid in gpus()] + [f"cpu:{n}" for n in range(count if isinstance(count, int) else 1)]


@dataclass(order=True, frozen=True, slots=True)
class _Candidate:
    rank: tuple[int, int, int]
    run_id: int
    numbers: tuple[int, ...]
    gpus: int
    max_parallel: int
    sweep: str
    login: str = ""  # name of the login its agent works with, while that is still to come
    per_login: int = 0
    login_state: str = ""  # stem of the lock of a login that one run at a time may use


def _login_of(spec: Mapping[str, Any], steps: Sequence[Folded]) -> tuple[str, int, str]:
    """The login that a run's agent has or will have, how many may use it, its lock; empty once the agent is over."""
    if all(step.over for step in steps if step.name.kind == "agent"):
        return "", 0, ""
    limit = spec.get("per_credential")
    name, state = str(spec.get("credential") or ""), str(spec.get("credential_state") or "")
    return name, limit if isinstance(limit, int) else 0, state


class _Pass:
    def __init__(self, root: Root) -> None:
        self.root = root
        self.due: float | None = None
        self.candidates: list[tuple[_Candidate, int, int]] = []  # with run and supervisor lock
        self.working: dict[str, int] = {}  # sweep → runs at work
        self.using: dict[str, int] = {}  # login → runs whose agent works with it
        self.started: list[int] = []
        self.reserved: set[str] = set()  # slots of runs that are looked after; an adopter waits for its own to get free

    def look(self, run_id: int) -> None:
        """Settle, adopt, or remember as a candidate."""
        guard = locks.take(locks.supervisor_lock(self.root, run_id))
        if guard is None:
            self._count(run_id)
            return
        keep = False
        try:
            try:
                run = place.find(self.root, run_id)
            except PtbError:
                self.root.live(run_id).unlink(missing_ok=True)
                return
            spec = files.read_object(run.spec)
            if spec is None:
                return
            steps = steps_now(self.root, run_id, run)
            if all(step.over for step in steps):
                place.settle(self.root, run, run_id)
                self.root.live(run_id).unlink(missing_ok=True)
                return
            todo = next_job(steps)
            if not todo:
                return
            first, numbers = todo[0], tuple(step.number for step in todo)
            lock = locks.take(locks.run_lock(self.root, run_id))
            if lock is None:  # its work goes on without anybody to look after it
                self._start(run_id, numbers, self._slot_of(first), [], guard)
                self._count(run_id)
                return
            begun = first.state.state.active or first.state.started
            login, limit, state = _login_of(spec, steps)
            candidate = _Candidate(
                rank=(0 if begun else 1, -int(spec.get("priority") or 0), run_id),
                run_id=run_id,
                numbers=numbers,
                gpus=max(int(step.spec.get("gpus") or 0) for step in todo),
                max_parallel=int(spec.get("max_parallel") or 0),
                sweep=str(spec.get("sweep") or ""),
                login=login,
                per_login=limit,
                login_state=state,
            )
            self.candidates.append((candidate, lock, guard))
            keep = True
        finally:
            if not keep:
                os.close(guard)

    def _count(self, run_id: int) -> None:
        with contextlib.suppress(PtbError):
            run = place.find(self.root, run_id)
            spec = files.read_object(run.spec) or {}
            sweep = str(spec.get("sweep") or "")
            self.working[sweep] = self.working.get(sweep, 0) + 1
            steps = steps_now(self.root, run_id, run)
            if login := _login_of(spec, steps)[0]:
                self.using[login] = self.using.get(login, 0) + 1
            for step in (step for step in steps if step.state.state.active):
                self.reserved.update(self._slot_of(step).split(","))

    def _slot_of(self, step: Folded) -> str:
        claims = [event for event in step.log.events if event.kind in ("claimed", "adopted")]
        return str(claims[-1].data.get("slot", "")) if claims else ""

    def start_candidates(self) -> None:
        """Give free slots to candidates in order; the first that finds none ends the pass for its kind of slot."""
        names = slot_names(self.root) if self.candidates else []
        exhausted: set[str] = set()
        for candidate, lock, guard in sorted(self.candidates, key=lambda item: item[0]):
            kind = "gpu" if candidate.gpus else "cpu"
            taken: list[tuple[str, int]] = []
            room = not candidate.max_parallel or self.working.get(candidate.sweep, 0) < candidate.max_parallel
            room = room and self._login_free(candidate)
            if kind not in exhausted and room:
                for name in (name for name in names if name.startswith(kind) and name not in self.reserved):
                    if len(taken) == max(1, candidate.gpus):
                        break
                    fd = locks.take_slot(self.root, name)
                    if fd is None:  # somebody may only be looking whether it is free
                        time.sleep(GLANCE_S)
                        fd = locks.take_slot(self.root, name)
                    if fd is not None:
                        taken.append((name, fd))
                if len(taken) < max(1, candidate.gpus):
                    exhausted.add(kind)
                    for _, fd in taken:
                        os.close(fd)
                    taken = []
            if taken:
                fds = [lock, *(fd for _, fd in taken)]
                self._start(candidate.run_id, candidate.numbers, ",".join(name for name, _ in taken), fds, guard)
                self.working[candidate.sweep] = self.working.get(candidate.sweep, 0) + 1
                self.using[candidate.login] = self.using.get(candidate.login, 0) + 1
                for name, fd in taken:
                    locks.note_holder(self.root, name, candidate.run_id)
                    os.close(fd)
            os.close(lock)
            os.close(guard)

    def _login_free(self, candidate: _Candidate) -> bool:
        """Whether one more run may use the login: counted here, and asked of the lock for runs of other roots."""
        if not candidate.per_login or not candidate.login:
            return True
        if self.using.get(candidate.login, 0) >= candidate.per_login:
            return False
        stem = candidate.login_state
        return not stem or returning.free_for(Path(stem), self.root, candidate.run_id)

    def _start(self, run_id: int, numbers: tuple[int, ...], slot: str, fds: list[int], guard: int) -> None:
        spec = files.read_object(place.find(self.root, run_id).spec) or {}
        program = place.program(self.root, spec)
        arguments = [str(self.root.path), str(run_id), ",".join(map(str, numbers)), slot, *map(str, (*fds, guard))]
        logs = self.root.own("logs")
        logs.mkdir(parents=True, exist_ok=True)
        with open(logs / f"{run_id}.log", "ab") as log:
            subprocess.Popen(
                [sys.executable, "-I", str(program), "supervise", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                pass_fds=(*fds, guard),
            )
        self.started.append(run_id)


def dispatch(root: Root) -> list[int]:
    """One or more passes until nobody asks for another; returns the runs for which a supervisor was started.

    When another process dispatches already, it is asked to look once more and the result is empty.
    """
    state = locks.state_folder(root)
    kick = state / "kick"
    started: list[int] = []
    while True:
        lock = locks.take(state / "dispatch.lock")
        if lock is None:
            kick.touch()
            if not locks.busy(state / "dispatch.lock"):
                continue  # it ended before it could see the kick
            return started
        try:
            kick.unlink(missing_ok=True)
            this = _Pass(root)
            for run_id in place.pending(root):
                this.look(run_id)
            this.start_candidates()
            started += this.started
        finally:
            os.close(lock)
        if not kick.exists():
            return started


def main(argv: Sequence[str]) -> int:
    """Internal verb `dispatch ROOT`."""
    started = dispatch(Root(Path(argv[0])))
    if started:
        print(json.dumps({"t": clock.utc_text(time.time()), "started": started}), flush=True)
    return 0
