"""A lab whose supervisors may be killed at named points, and what must hold for its runs whatever was killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, events, files
from ptb_tui.core.errors import NotFound
from ptb_tui.core.layout import RunFiles
from ptb_tui.evaluation import fingerprint
from ptb_tui.results.steps import fold_steps
from ptb_tui.run import locks, place, processes
from tests.e2e.conftest import REPOSITORY, Lab, until

LONG = 150.0
LINES = [f"line {number:06d} of an agent that keeps talking" for number in range(600)]

# Laid into a copy of the program. Supervisors end (or stop) themselves at the points named in a file, each once.
HOOK = '''"""Ends this process at named points."""
import json, os, signal, subprocess, sys
from pathlib import Path

def arm():
    folder = Path(os.environ["XDG_CONFIG_HOME"])
    if sys.argv[1:2] != ["supervise"] or not (folder / "points").exists():
        return
    wanted = json.loads((folder / "points").read_text())
    from ptb_tui.core import events

    def reach(name):
        for number, sign in (("SIGKILL", ""), ("SIGSTOP", "stop ")):
            if sign + name in wanted:
                try:
                    os.close(os.open(folder / ("reached " + (sign + name).replace("/", "_")), os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                os.kill(os.getpid(), getattr(signal, number))

    init, append, rename, spawn = events.Writer.__init__, events.Writer.append, os.rename, subprocess.Popen.__init__

    def new_init(self, folder):
        self.step = folder.name[4:]
        init(self, folder)

    def new_append(self, kind, **data):
        name = self.step + " " + kind + ("-" + data["name"] if kind == "phase" else "")
        reach("before " + name)
        append(self, kind, **data)
        reach("after " + name)

    def new_rename(source, target, **options):
        reach("before rename " + os.path.basename(target))
        rename(source, target, **options)
        reach("after rename " + os.path.basename(target))

    def new_spawn(self, args, *more, **options):
        spawn(self, args, *more, **options)
        if isinstance(args, list) and len(args) > 3:
            agent = " agent" if args[3] == "shim" and args[-1].endswith("-agent") else ""
            reach("spawned " + args[3] + agent)

    events.Writer.__init__, events.Writer.append = new_init, new_append
    os.rename, subprocess.Popen.__init__ = new_rename, new_spawn
'''


class ChaosLab(Lab):
    """A lab whose runs have no judges, whose agents leave a mark when they start, and whose supervisors may die."""

    def __init__(self, base: Path, slots: int = 1) -> None:
        super().__init__(base)
        self.starts = base / "starts"
        self.starts.write_text("")
        solve = self.cwd / "agents" / "toy" / "solve.sh"
        solve.write_text(solve.read_text().replace("set -u\n", f'set -u\necho "$AGENT_CONFIG" >> {self.starts}\n'))
        protocols = self.cwd / "tasks" / "protocols"
        for old, new in (("toy", "bare"), ("toynet", "barenet")):
            text = (protocols / f"{old}.toml").read_text().replace(f'"{old}"', f'"{new}"', 1)
            (protocols / f"{new}.toml").write_text(text.partition("[[judges]]")[0])
        if slots > 1:
            config = base / "config" / "ptb-tui" / "config.toml"
            config.write_text(config.read_text().replace("[sites.local]\n", f"[sites.local]\nslots = {slots}\n"))

    def own_program(self, *points: str, grace_s: float = 300.0) -> None:
        """Use a copy of the program that dies at these points and ends agents `grace_s` after their budget."""
        copy = self.base / "program"
        shutil.copytree(REPOSITORY / "ptb_tui", copy / "ptb_tui", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(REPOSITORY / "backends", copy / "backends", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("judges", "tasks", "agents", "containers"):
            (copy / name).symlink_to(REPOSITORY / name)
        (copy / "ptb_tui" / "points.py").write_text(HOOK)
        main = copy / "ptb_tui" / "__main__.py"
        old, new = "    target = VERBS.get", "    import_module('ptb_tui.points').arm()\n    target = VERBS.get"
        assert old in main.read_text()
        main.write_text(main.read_text().replace(old, new))
        agent = copy / "ptb_tui" / "run" / "steps" / "agent.py"
        assert "GRACE_S = 300.0" in agent.read_text()
        agent.write_text(agent.read_text().replace("GRACE_S = 300.0", f"GRACE_S = {grace_s}"))
        (self.base / "config" / "points").write_text(json.dumps(points))
        self.env["PYTHONPATH"] = str(copy)

    def reached(self) -> set[str]:
        return {path.name.removeprefix("reached ") for path in (self.base / "config").glob("reached *")}

    def batch(self, *configs: str, **keys: Any) -> subprocess.Popen[bytes]:
        sweep = self.sweep(*configs, **{"protocol": "bare", **keys})
        return self.start("--batch", sweep, "--yes", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def submit(self, *configs: str, **keys: Any) -> list[int]:
        """Submit without anybody who waits: the batch is killed once it has its receipt."""
        before = set(self.ids())
        receipts = len(list(self.root.own("journal").glob("[!.]*.json")))
        batch = self.batch(*configs, **keys)
        try:
            until(lambda: len(list(self.root.own("journal").glob("[!.]*.json"))) > receipts, "the receipt", LONG)
        finally:
            kill(batch)
        self.dispatch()  # the batch may have been killed before it saw to that
        return sorted(set(self.ids()) - before)

    def dispatch(self) -> None:
        subprocess.run([*self.command("dispatch"), str(self.results)], cwd="/", env=self.env, check=True, timeout=LONG)

    def files_of(self, run_id: int) -> RunFiles:
        with contextlib.suppress(NotFound):
            return place.find(self.root, run_id)
        ended = next(self.results.glob(f"*/*_{run_id}/.ptb/spec.json"), None)
        assert ended is not None, f"no run {run_id}"
        return RunFiles(ended.parent)

    def over(self, run_id: int) -> bool:
        """Whether all steps are closed and nobody works for the run any more."""
        with contextlib.suppress(Exception):  # it may move while we look
            run = self.files_of(run_id)
            steps = list(fold_steps(run, {}))
            return bool(steps) and all(step.over for step in steps) and not self.root.queued(run_id).spec.exists()
        return False

    def finish(self, *run_ids: int) -> None:
        """Look after the queue until these runs are over."""

        def done() -> bool:
            if all(self.over(run_id) for run_id in run_ids):
                return True
            if not all(map(self.looked_after, run_ids)):
                self.dispatch()
            return False

        until(done, f"runs {run_ids} over", LONG)
        until(lambda: not any(map(self.looked_after, run_ids)), "all supervisors ended", LONG)
        self.dispatch()  # clears away what a supervisor killed after its last word left

    def looked_after(self, run_id: int) -> bool:
        return locks.busy(locks.supervisor_lock(self.root, run_id))

    def log(self, run_id: int, number: int = 1) -> list[events.Event]:
        run = self.files_of(run_id)
        folder = next((path for n, _, path in run.step_folders() if n == number), None)
        return list(events.read(folder).events) if folder else []

    def wait_event(self, run_id: int, kind: str, number: int = 1) -> events.Event:
        def found() -> events.Event | None:
            with contextlib.suppress(Exception):  # it may move while we look
                return next((event for event in self.log(run_id, number) if event.kind == kind), None)
            return None

        event: events.Event = until(found, f"{kind} of run {run_id}", LONG)
        return event

    def row(self, run_id: int) -> dict[str, Any]:
        rows = (row for line in self.json("runs") for row in line.get("runs", [line]))
        return next(row for row in rows if row.get("id") == run_id)

    def state(self, run_id: int, number: int = 1) -> tuple[str, str]:
        step = next(step for step in fold_steps(self.files_of(run_id), {}) if step.number == number)
        return step.state.state.value, step.state.cause

    def alive(self) -> list[int]:
        """Processes that work for a step: command and everything below it, marked by their environment."""
        mark, found = f"PTB_STEP={self.base}".encode(), []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{name}/environ").read_bytes():
                    found.append(int(name))
        return found

    def check(self, run_id: int, number: int = 1) -> None:
        """What must hold for every step that was ever claimed (local_queue C.4)."""
        for step in fold_steps(self.files_of(run_id), {}):
            kinds = [event.kind for event in self.log(run_id, step.number)]
            assert kinds.count("ended") == (1 if kinds else 0), (run_id, step.name, kinds)
            assert kinds.count("started") <= 1, (run_id, step.name, kinds)
            assert not kinds or kinds[-1] == "ended", (run_id, step.name, kinds)
            assert kinds.count("harvested") <= 2 or self.reached(), kinds

    def check_scored(self, run_id: int, lines: int = 0) -> None:
        """The run has its score, its whole model and every line once."""
        self.check(run_id)
        assert self.row(run_id)["worth"] == "scored"
        run = self.files_of(run_id)
        digest, count = fingerprint.of_folder(run.run_dir / "final_model")
        manifest = files.read_object(run.ptb / "final_model.json")
        assert count and manifest is not None and manifest["digest"] == digest
        evaluated = [event.data["model_digest"] for event in self.log(run_id, 2) if event.kind == "result"]
        assert set(evaluated) == {digest}, "a kill between result and end may repeat it"
        text = (run.run_dir / "solve_out.txt").read_text()
        assert [words for line in text.splitlines() if (words := line.partition("] ")[2])] == LINES[:lines]
        assert not (run.run_dir / ".ptb.moving").exists() and not self.root.live(run_id).exists()
        scratch = place_scratch(self, run_id)
        assert not scratch.exists() or not os.listdir(scratch), os.listdir(scratch)
        assert not self.alive()


def place_scratch(lab: Lab, run_id: int) -> Path:
    return lab.root.scratch(lab.base / "scratch", run_id)


def kill(process: subprocess.Popen[bytes] | clock.Process) -> None:
    """SIGKILL a child or exactly one other process, and see it gone."""
    if isinstance(process, subprocess.Popen):
        process.kill()
        process.wait(60)
        return
    processes.send_exactly(process, signal.SIGKILL)
    until(lambda: not clock.alive(process), f"{process.pid} gone")


def identify(pids: list[int]) -> clock.Process | None:
    return next((found for pid in pids if (found := clock.identify(pid)) is not None), None)


def supervisor_of(lab: ChaosLab, run_id: int) -> clock.Process | None:
    """Who looks after a run now."""
    mark = f" supervise {lab.results} {run_id} "
    return identify(lab.pids(mark))
