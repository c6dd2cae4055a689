"""The desk of a judge of engine `openai_api`: a program of ours that reads the evidence in a sandbox of its own.

There is no network in it, no key, nothing of the host but the evidence, read-only. What the model asks for goes in by
standard input, a line each way; a tool that takes too long ends the sandbox, and the next one gets another.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.core.errors import StepError
from ptb_tui.judging.engines import reader
from ptb_tui.judging.exhibits import PLACE
from ptb_tui.run.erasing import erase
from ptb_tui.sandbox import base
from ptb_tui.sandbox.base import Bind, Command, Request, Sandbox

READER = Path(reader.__file__)
INSIDE = "/opt/ptb/reader.py"
GRACE_S = 20.0  # beyond a tool's own time, for a sandbox to start in
END_S = 10.0
_CHUNK = 1 << 16


@dataclass(slots=True)
class SandboxDesk:
    """`judging.engines.desk.Desk`. `place` is a folder of ours on scratch, made anew for each session."""

    sandbox: Sandbox
    place: Path
    facts: dict[str, Any] = field(default_factory=dict)
    grace_s: float = GRACE_S
    _binds: tuple[Bind, ...] = ()
    _child: subprocess.Popen[bytes] | None = None
    _command: Command | None = None
    _stamp: int = 0
    _number: int = 0
    _rest: bytes = b""

    def open(self, binds: Sequence[Bind]) -> None:
        """Show this evidence from now on."""
        self.close()
        self._binds = tuple(binds)

    def close(self) -> None:
        """End the sandbox."""
        child, self._child, self._rest = self._child, None, b""
        if child is None:
            return
        child.kill()
        for stream in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)

    def call(self, name: str, arguments: Mapping[str, Any], room: int, seconds: float) -> tuple[bool, str]:
        """Carry out one tool. StepError when there is no sandbox to be had."""
        if self._child is None or self._child.poll() is not None:
            self._start()
        self._number += 1
        asked = {"id": self._number, "tool": name, "arguments": dict(arguments), "bytes": room, "seconds": seconds}
        answer = self._answer(json.dumps(asked).encode() + b"\n", 8 * room + (1 << 20), seconds + self.grace_s)
        if answer is None:
            began = self._command.began if self._command is not None else None
            over = self._child is not None and self._child.poll() is not None
            if over and began is not None and base.stamp(began) == self._stamp:
                raise StepError(f"the sandbox of the judge's tools did not start: {self._said()}", cause="sandbox")
            self.close()
            return False, "the tool took too long or failed; ask for less"
        return answer.get("ok") is True, str(answer.get("text") or "")

    def _said(self) -> str:
        data = files.read_bytes(self.place / "desk.log", 1 << 20) or b""
        return data[-300:].decode("utf-8", "replace").strip() or "it says nothing"

    def _start(self) -> None:
        self.close()
        erase(self.place)
        home = self.place / "home"
        (home / "judge").mkdir(parents=True)
        self.place.chmod(0o700)
        python = self.sandbox.python()
        env = {"PATH": ":".join(self.sandbox.path()), "HOME": self.sandbox.home_inside(home), "LANG": "C.UTF-8"}
        env |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1"}
        request = Request(
            argv=(python, "-I", "-S", INSIDE, PLACE),
            home=home,
            workdir="judge",
            binds=(*self._binds, Bind(READER, INSIDE)),
            env=env,
            network="none",
            scratch=self.place / "sandbox",
        )
        command = self.sandbox.command(request)
        self.facts.update(sandbox=self.sandbox.name, network=command.network or "none", notes=list(command.notes))
        self._command, self._stamp = command, base.stamp(command.began) if command.began else 0
        with open(self.place / "desk.log", "wb") as log:
            try:
                self._child = subprocess.Popen(
                    command.argv,
                    cwd=command.cwd,
                    env=command.env,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=lambda: base.apply_limits(command.limits),
                )
            except (OSError, subprocess.SubprocessError) as error:
                words = f"the sandbox of the judge's tools could not be started: {error}"
                raise StepError(words, cause="sandbox") from error

    def _answer(self, line: bytes, most: int, seconds: float) -> dict[str, Any] | None:
        """The answer to one request; None when none comes in time, or what comes is none."""
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None
        limit, fd, data = clock.monotonic() + seconds, child.stdout.fileno(), self._rest
        self._rest = b""
        try:
            child.stdin.write(line)
            child.stdin.flush()
        except OSError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(END_S)
            return None
        while b"\n" not in data:
            left = limit - clock.monotonic()
            if left <= 0 or len(data) > most or not select.select([fd], [], [], left)[0]:
                return None
            piece = os.read(fd, _CHUNK)
            if not piece:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(END_S)
                return None
            data += piece
        first, _, self._rest = data.partition(b"\n")
        try:
            found = json.loads(first)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) and found.get("id") == self._number else None
