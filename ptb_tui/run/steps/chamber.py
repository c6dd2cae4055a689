"""The sandbox of a judge: a home of its own, the pinned CLI, a login, and a gateway that knows the judge's hosts alone
(design §6; E §3.6). Every session gets all of it anew.

    <scratch>/try-<n>/  home/  gateway/  companion.json  egress.jsonl  output  secrets.json

The step's program is the parent of the sandbox and of a companion, which it keeps alive while the session lasts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import Root
from ptb_tui.core.spec import RunSpec
from ptb_tui.core.verdict import JudgeSpec
from ptb_tui.judging.engines.codex import WORK, Left, Visit
from ptb_tui.run import judges, processes
from ptb_tui.run.broker import SECRETS
from ptb_tui.run.erasing import erase
from ptb_tui.run.sources import Provision, Ready
from ptb_tui.run.sources.cli import TARGET
from ptb_tui.run.sources.login import judge_login
from ptb_tui.run.steps.attendant import Companion, renewals
from ptb_tui.sandbox import base
from ptb_tui.sandbox.base import Bind, Command, Request, Sandbox

TICK_S = 0.25
TERM_GRACE_S = 5.0
KILL_GRACE_S = 10.0
_LEDGER = 8 << 20


@dataclass(frozen=True, slots=True)
class JudgeChamber:
    """The chamber of one judge step; `judging.engines.codex.Chamber`. `values` are the site's settings."""

    judge: str
    spec: JudgeSpec
    run: RunSpec
    root: Root
    sandbox: Sandbox
    tool: judges.Tool
    values: Mapping[str, str]
    scratch: Path
    step_folder: Path
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def home(self) -> str:
        """The home as the judge sees it."""
        return self.sandbox.home_inside(self.scratch / "home")

    @property
    def version(self) -> str:
        """The version of the CLI, as the store has it."""
        return self.tool.version.version

    def path(self) -> str:
        """Where the judge's shell finds programs."""
        return ":".join(dict.fromkeys(self.sandbox.path()))

    def visit(self, visit: Visit) -> Left:
        """Have one session in a new sandbox. StepError for what is ours."""
        place = self.scratch / f"try-{visit.number}"
        erase(place)
        ready = Ready(place, self.sandbox)
        (ready.home / WORK).mkdir(parents=True)
        place.chmod(0o700)
        for name, text in visit.files.items():
            (ready.home / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.replace(ready.home / name, text, mode=0o600)
        (place / "prompt.txt").write_text(visit.prompt, "utf-8")
        given = judge_login(self.judge, self.spec.credential, ready, "gateway", self.values, self.root, self.run)
        keys = judges.key_policy(self.spec)
        if missing := keys.missing(self.values):
            raise StepError(f"no value for {', '.join(missing)}; put it into .env", cause="credential")
        command = self._command(visit, ready, given, keys.values(self.values))
        self.facts.update(sandbox=self.sandbox.name, network=command.network or "gateway", cli=self.tool.version.digest)
        self.facts["notes"] = list(dict.fromkeys((*command.notes, *given.notes)))
        companion = Companion(place)
        try:
            companion.ready(place / "gateway" / "gateway.sock")
            return self._run(visit, place, command, companion, keys.values(self.values))
        finally:
            kill_rest(companion, place)
            companion.end()
            self._keep_ledger(place, visit.number)

    def _command(self, visit: Visit, ready: Ready, given: Provision, keys: Mapping[str, str]) -> Command:
        place, inside = ready.scratch, ready.home_inside
        allowed, shown = judges.hosts(self.spec)
        reach = tuple(dict.fromkeys((*given.reach, *shown)))
        (place / "gateway").mkdir(mode=0o700)
        socket = place / "gateway" / "gateway.sock"
        settings = {
            "socket": str(socket),
            "ledger": str(place / "egress.jsonl"),
            "allow": list(allowed),
            "also": [f"127.0.0.1:{port}" for port in reach],
            **given.companion,
        }
        files.replace(place / "companion.json", files.dump(settings), mode=0o600)
        env = {
            "PATH": ":".join(dict.fromkeys((f"{TARGET}/bin", *self.sandbox.path()))),
            "HOME": inside,
            "LANG": "C.UTF-8",
            "PYTHONNOUSERSITE": "1",
            **self.tool.cli.env,
            **given.env,
            **keys,
        }
        request = Request(
            argv=visit.argv,
            home=ready.home,
            workdir=WORK,
            binds=(*visit.binds, *given.binds, Bind(self.tool.tree, TARGET)),
            env=env,
            network="gateway",
            gateway_socket=socket,
            reach=reach,
            scratch=place / "sandbox",
        )
        return self.sandbox.command(request)

    def _run(self, visit: Visit, place: Path, command: Command, companion: Companion, keys: Mapping[str, str]) -> Left:
        stamp = base.stamp(command.began) if command.began else 0
        start, wall = clock.monotonic(), time.time()
        with open(place / "output", "wb") as out, open(place / "prompt.txt", "rb") as prompt:
            try:
                child = subprocess.Popen(
                    command.argv,
                    cwd=command.cwd,
                    env=command.env,
                    stdin=prompt,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    preexec_fn=lambda: base.apply_limits(command.limits),
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise StepError(f"the judge could not be started: {error}", cause="sandbox") from error
        timed_out = self._wait(child, place, companion, start + visit.limit_s)
        seconds = clock.monotonic() - start
        if command.began and stamp and base.stamp(command.began) == stamp and not timed_out:
            said = (files.read_bytes(place / "output", 1 << 20) or b"")[-300:].decode("utf-8", "replace").strip()
            raise StepError(f"the judge's sandbox did not start: {said or 'it says nothing'}", cause="sandbox")
        code = child.returncode
        return Left(
            rc=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            started=wall,
            seconds=seconds,
            timed_out=timed_out,
            stopped=(self.scratch / "stop.json").exists(),
            work=place / "home" / WORK,
            output=place / "output",
            secrets={**keys, **secrets_of(place)},
        )

    def _wait(self, child: subprocess.Popen[bytes], place: Path, companion: Companion, ends: float) -> bool:
        """Until the CLI ends; True when it had to be ended because its time was up."""
        while (left := ends - clock.monotonic()) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(min(TICK_S, left))
                return False
            companion.tend()
        if child.poll() is not None:
            return False
        for pid in processes.polite(tree(companion, place), self.sandbox.runtime):
            processes.send(pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(TERM_GRACE_S)
        kill_rest(companion, place)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(KILL_GRACE_S)
        return True

    def _keep_ledger(self, place: Path, number: int) -> None:
        """What the judge itself reached and tried to reach stays with the step."""
        name = "egress" + (f"_{number}" if number > 1 else "") + ".jsonl"
        if (data := files.read_bytes(place / "egress.jsonl", _LEDGER)) is not None:
            files.replace(self.step_folder / name, data)


def secrets_of(place: Path) -> dict[str, str]:
    """The tokens that a session was given, renewed ones included, by a name to show instead."""
    known = (files.read_object(place / SECRETS) or {}).get("secrets")
    return {str(name): str(value) for name, value in known.items()} if isinstance(known, dict) else {}


def tree(companion: Companion, place: Path) -> list[int]:
    """Everything of the session: below us, without the companion and what it began."""
    return processes.descendants(os.getpid(), spare=(*companion.pids, *renewals(place)))


def kill_rest(companion: Companion, place: Path) -> None:
    """KILL what a session left, daemons included."""
    limit = clock.monotonic() + KILL_GRACE_S
    while (left := tree(companion, place)) and clock.monotonic() < limit:
        for pid in left:
            processes.send(pid, signal.SIGKILL)
        time.sleep(0.02)
