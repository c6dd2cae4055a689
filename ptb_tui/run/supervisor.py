"""The small process that sees one job through: an ordered list of steps of one run (design §2.3, §5).

Its death ends nothing: the shim goes on, and the next dispatch starts another supervisor, which goes on where the
evidence says. Standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ptb_tui.core import files
from ptb_tui.core.causes import cause
from ptb_tui.core.errors import PtbError
from ptb_tui.core.layout import Root
from ptb_tui.run import place, processes
from ptb_tui.run.now import agent_failed, steps_now
from ptb_tui.run.stepping import Step

RESTART_S = 10.0  # before the next supervisor, when the results tree refuses to be written


class Supervisor:
    """One job."""

    def __init__(self, root: Root, run_id: int, slot: str, fds: list[int]) -> None:
        self.root, self.run_id, self.slot = root, run_id, slot
        self.lock_fds = fds  # run and slot locks: inherited by everything that works for the run
        self.files = place.find(root, run_id)
        self.spec = files.read_object(self.files.spec) or {}
        self.scratch = place.run_scratch(root, run_id)
        self.why_stop = ""
        signal.signal(signal.SIGUSR1, self._stop)  # a scheduler's notice; SIGTERM ends the supervisor, not the agent
        signal.signal(signal.SIGHUP, lambda *_: None)
        signal.signal(signal.SIGINT, lambda *_: None)

    def _stop(self, *_: object) -> None:
        self.why_stop = "signal"

    def verb(self, name: str, *arguments: str | Path) -> list[str]:
        """Command line of one of our verbs, from the run's own staged copy where there is one."""
        staged = self.scratch / "bundle" / "ptb"
        program = staged if staged.is_file() else place.program(self.root, self.spec)
        return [sys.executable, "-I", str(program), name, *map(str, arguments)]

    def child(self, log: Path, argv: list[str], limit: float) -> int:
        """Run one of our verbs to its end; its output goes to `log`. Kills it at the limit (124)."""
        with open(log, "ab") as out:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", pass_fds=self.lock_fds
            )
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                for pid in (*processes.descendants(process.pid), process.pid):
                    processes.send(pid, signal.SIGKILL)
                process.wait()
                return 124

    def run(self, numbers: Sequence[int]) -> None:
        """All steps of the job in order. What was to follow an agent step that did not finish is cancelled."""
        steps = {step.number: step for step in steps_now(self.root, self.run_id, self.files)}
        stopped = agent_failed(list(steps.values()))
        for number in numbers:
            found = next((step for step in self.files.step_folders() if step[0] == number), None)
            if found is None:
                continue
            step = Step(self, found[1], found[2].name)
            if stopped and (steps[number].after_agent or self.files.cancel.exists()):
                step.log.append("ended", outcome="cancelled", cause="operator", why=stopped)
            else:
                outcome, reason, why = step.run()
                if found[1].kind == "agent" and outcome != "done":
                    stopped = f"the agent step did not finish: {why or cause(reason).words}"
                elif self.files.cancel.exists():
                    stopped = "the run was cancelled"
            step.log.close()
        place.settle(self.root, self.files, self.run_id)


def main(argv: Sequence[str]) -> int:
    """Internal verb `supervise ROOT ID STEPS SLOT [FD …]`; the last descriptor is the supervisor lock."""
    root, run_id = Root(Path(argv[0])), int(argv[1])
    numbers = [int(part) for part in argv[2].split(",")]
    *inherited, own = [int(part) for part in argv[4:]]
    os.set_inheritable(own, False)
    processes.become_subreaper()
    with contextlib.suppress(OSError):
        os.nice(2)
    job = Supervisor(root, run_id, argv[3], inherited)
    try:
        job.run(numbers)
    except (PtbError, OSError):
        time.sleep(RESTART_S)
        raise
    finally:
        for fd in (*job.lock_fds, own):
            with contextlib.suppress(OSError):
                os.close(fd)
        place.start_dispatch(root)
    return 0
