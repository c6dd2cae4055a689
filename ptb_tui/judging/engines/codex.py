"""The engine `codex`: the vendor's CLI reads the evidence in a sandbox of its own and writes `judgement.json` (E §3.6).

What the sandbox is made of is a chamber's matter (`run.steps.chamber`); here is what is asked in it and what becomes of
the answer. Each session has a new home, a new number and a new login. The flags are the original's without its web
search: a judge that reads hostile text gets no other way out than to its own model.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ptb_tui.core.verdict import JudgeSpec
from ptb_tui.judging.collect import Collected, Outcome, collect
from ptb_tui.judging.engines.trying import Attempt, Case, Trying, without
from ptb_tui.judging.exhibits import Exhibits
from ptb_tui.judging.prompting import build
from ptb_tui.sandbox.base import Bind

WORK = "judge"  # the working directory, below the home: empty, and no place that an agent ever wrote to
FILE = "judgement.json"
KEY = "CODEX_API_KEY"
MAX_OUTPUT = 64 << 20
# What could load text from elsewhere, or start more than one session.
_OFF = ("apps", "goals", "hooks", "image_generation", "memories", "multi_agent", "plugins", "shell_snapshot")


@dataclass(frozen=True, slots=True)
class Visit:
    """One session to be had: `files` go into the new home, `prompt` to the CLI's standard input."""

    number: int
    argv: tuple[str, ...]
    files: Mapping[str, str]
    prompt: str
    binds: tuple[Bind, ...]
    limit_s: float


@dataclass(frozen=True, slots=True)
class Left:
    """What a session left. `work` is the working directory on the host; `output` all that was printed. `secrets` by a
    name to show instead. `stopped`: somebody ended the step from outside."""

    rc: int | None
    signal: int | None
    started: float  # wall clock
    seconds: float
    timed_out: bool
    stopped: bool
    work: Path
    output: Path
    secrets: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """How the CLI ended, "" when it ended well."""
        if self.timed_out:
            return f"ended after {self.seconds:.0f} s: its time was up"
        if self.signal is not None:
            return f"killed by signal {self.signal}"
        return "" if self.rc == 0 else f"exit status {self.rc}"


class Chamber(Protocol):
    """Gives a judge its sandbox."""

    @property
    def home(self) -> str:
        """The home as the judge sees it."""
        ...

    @property
    def version(self) -> str:
        """The version of the CLI."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the sandbox was, for the record; complete after a visit."""
        ...

    def path(self) -> str:
        """Where the judge's shell finds programs: not where the CLI lies."""
        ...

    def visit(self, visit: Visit) -> Left:
        """Have one session in a new sandbox. StepError for what is ours: no sandbox, no login, no gateway."""
        ...


def config(spec: JudgeSpec, home: str, path: str) -> str:
    """`~/.codex/config.toml`: no instructions from files, no search, no history, and a shell that sees no key."""
    login = spec.credential.is_login
    lines = [
        f"forced_login_method = {json.dumps('chatgpt' if login else 'api')}",
        'cli_auth_credentials_store = "file"',
        "project_doc_max_bytes = 0",
        'web_search = "disabled"',
        "check_for_update_on_startup = false",
    ]
    if spec.endpoint:
        lines.append('model_provider = "endpoint"')
    lines += ["[analytics]", "enabled = false", "[history]", 'persistence = "none"']
    lines += ["[features]", *(f"{name} = false" for name in _OFF)]
    lines += ["[skills]", "include_instructions = false", "[skills.bundled]", "enabled = false"]
    shell = {"PATH": path, "HOME": home, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}
    lines += ["[shell_environment_policy]", 'inherit = "none"', "[shell_environment_policy.set]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in shell.items()]
    if spec.endpoint:
        who = "requires_openai_auth = true" if login else f"env_key = {json.dumps(KEY)}"
        lines += ["[model_providers.endpoint]", 'name = "endpoint"', f"base_url = {json.dumps(spec.endpoint)}", who]
        lines.append('wire_api = "responses"')
    return "\n".join(lines) + "\n"


def command(spec: JudgeSpec) -> tuple[str, ...]:
    """The command line; the prompt comes by standard input, where no other user of the machine reads it."""
    settings = ("model_reasoning_summary=detailed", f"model_reasoning_effort={spec.effort}")
    words = [word for setting in settings for word in ("-c", setting)]
    tail = ("--skip-git-repo-check", "--yolo", "--model", spec.model, "-")
    return ("codex", "-a", "never", "exec", "--json", *words, *tail)


class CodexEngine(Trying):
    """Judges one run in sessions of the CLI."""

    name = "codex"

    def __init__(self, chamber: Chamber, case: Case) -> None:
        super().__init__(case)
        self._chamber = chamber

    @property
    def version(self) -> str:
        """That of the CLI."""
        return self._chamber.version

    @property
    def about(self) -> Mapping[str, Any]:
        """What the sandbox was."""
        return self._chamber.facts

    def session(self, number: int, spec: JudgeSpec, shown: Exhibits, limit_s: float) -> Attempt:
        """Have one session. StepError for what is ours."""
        nonce, home = secrets.token_hex(16), self._chamber.home
        place = f"{home}/{WORK}/{FILE}"
        prompt = build(self.case.template, spec, self.case.facts, shown.items, shown.absent, nonce, place)
        own = {".codex/config.toml": config(spec, home, self._chamber.path())}
        left = self._chamber.visit(Visit(number, command(spec), own, prompt, shown.binds, limit_s))
        found = without(collect_from(left, spec, nonce), left.secrets)
        kept, session = self.kept(number, _tail(left.output), left.secrets)
        return Attempt(
            found,
            left.seconds,
            cause=str(session.ending.get("cause") or ""),
            words="; ".join(filter(None, (left.words, session.words))),
            well=left.rc == 0,
            timed_out=left.timed_out,
            stopped=left.stopped,
            tokens=session.tokens,
            facts={"rc": left.rc, "signal": left.signal, "output": kept, "redacted": dict(session.redacted)},
        )


def collect_from(left: Left, spec: JudgeSpec, nonce: str) -> Collected:
    """The verdict in a session's working directory. What was led to do so may have put a link in its place, so the
    directory is opened as one and the file is looked for in it."""
    try:
        fd = os.open(left.work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        outcome = Outcome.TIMED_OUT if left.timed_out else Outcome.MISSING
        return Collected(outcome, reason="the working directory is gone")
    try:
        place = Path(f"/proc/self/fd/{fd}/{FILE}")
        return collect(place, spec, nonce=nonce, started=left.started, timed_out=left.timed_out)
    finally:
        os.close(fd)


def _tail(path: Path) -> bytes:
    """At most the last 64 MB of what was printed, from the start of a line on."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MAX_OUTPUT))
            data = file.read(MAX_OUTPUT)
    except OSError:
        return b""
    return data if size <= MAX_OUTPUT else data.partition(b"\n")[2]
