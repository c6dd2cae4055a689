"""One command of an evaluation from its start to the death of everything it started (case C01)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from ptb_tui.core import clock
from ptb_tui.run import processes
from ptb_tui.sandbox import base
from ptb_tui.sandbox.base import Command, apply_limits

TICK_S = 0.5
TERM_GRACE_S = 30.0
KILL_GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `late` says in words that it was ended, `began` whether its sandbox stood."""

    code: int | None
    seconds: float
    late: str = ""
    began: bool = True
    stuck: tuple[int, ...] = ()


class NotStarted(Exception):
    """The command could not be started at all."""


def run(
    command: Command,
    runtime: str,
    out: IO[bytes],
    channel: int,
    limit_s: float,
    *,
    helpers: Callable[[], tuple[int, ...]] = tuple,
    tend: Callable[[], None] = lambda: None,
) -> Ended:
    """Run a command with its output to `out` and the descriptor `channel` as its standard input.

    Ends it after `limit_s` seconds, and at its end whatever it left running, but nothing that ran before and none of
    `helpers`. It dies with us. `tend` is called now and then. NotStarted when there is no such program.
    """
    spare = set(processes.descendants(os.getpid()))
    stamp = base.stamp(command.began) if command.began else 0
    start, us = clock.monotonic(), os.getpid()
    try:
        child = subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env=command.env,
            stdin=channel,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=lambda: _bound_to(us, command),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotStarted(f"the evaluation could not be started: {error}") from error

    def tree() -> list[int]:
        return processes.descendants(us, spare={*spare, *helpers()})

    late = ""
    while child.poll() is None:
        left = start + limit_s - clock.monotonic()
        if left <= 0:
            late = f"stopped after {clock.monotonic() - start:.0f} s"
            _end_tree(child, runtime, tree)
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(min(TICK_S, left))
        tend()
    stuck = _kill_rest(child, tree)
    began = not (stamp and command.began and base.stamp(command.began) == stamp)
    return Ended(child.returncode, clock.monotonic() - start, late, began or bool(late), tuple(stuck))


def _bound_to(parent: int, command: Command) -> None:
    """In the child before it becomes the command."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we said so
        os._exit(1)
    apply_limits(command.limits)


def _end_tree(command: subprocess.Popen[bytes], runtime: str, tree: Callable[[], list[int]]) -> None:
    """TERM to everything but what holds the sandbox."""
    for pid in processes.polite(tree(), runtime):
        processes.send(pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        command.wait(TERM_GRACE_S)


def _kill_rest(command: subprocess.Popen[bytes], tree: Callable[[], list[int]]) -> list[int]:
    """KILL what is left, daemons included; returns what would not die within some seconds."""
    limit = clock.monotonic() + KILL_GRACE_S
    while left := tree():
        if clock.monotonic() > limit:
            return left
        for pid in left:
            processes.send(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            command.wait(0.05)
        for pid in left:
            if pid != command.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
    return []
