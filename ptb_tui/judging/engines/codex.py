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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ptb_tui.core import clock, files
from ptb_tui.core.errors import StepError
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import EngineResult, Evidence, JudgeSpec, VerdictState
from ptb_tui.judging.collect import Collected, Outcome, collect
from ptb_tui.judging.exhibits import Exhibits, lay_out
from ptb_tui.judging.prompting import PromptFacts, build, prompt_hash
from ptb_tui.judging.sessions import Session, read_session
from ptb_tui.sandbox.base import Bind
from ptb_tui.traces.redact import Redactor

WORK = "judge"  # the working directory, below the home: empty, and no place that an agent ever wrote to
FILE = "judgement.json"
KEY = "CODEX_API_KEY"
MAX_OUTPUT = 64 << 20
LEAST_S = 2.0  # a session shorter than this is not begun
_FINAL = ("credential", "provider_limit")  # asking again at once changes nothing
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


class CodexEngine:
    """Judges one run. `template` is the folder's prompt, `rules` what the rules said before, `place` a new folder for
    the evidence, `keep` where outputs stay, `ends` when it must be over (`clock.monotonic`)."""

    name = "codex"

    def __init__(
        self,
        chamber: Chamber,
        template: str,
        facts: PromptFacts,
        rules: EngineResult,
        *,
        place: Path,
        keep: Path,
        ends: float,
    ) -> None:
        self._chamber, self._template, self._facts, self._rules = chamber, template, facts, rules
        self._place, self._keep, self._ends = place, keep, ends

    def judge(self, judge: str, spec: JudgeSpec, evidence: Evidence) -> EngineResult:
        """Judge one run; as many sessions as `tries` allows until one leaves a verdict. StepError for what is ours."""
        shown = lay_out(evidence, self._rules, self._place)
        sessions: list[dict[str, Any]] = []
        found, cause, words = Collected(Outcome.MISSING, reason="no session was begun"), "", ""
        spent: dict[str, int] = {}
        for number in range(1, spec.tries + 1):
            left_s = self._ends - clock.monotonic()
            if left_s < LEAST_S or (sessions and left_s < sessions[-1]["seconds"]):
                break
            found, left, session, kept = self._session(number, spec, shown, left_s)
            cause, words = str(session.ending.get("cause") or ""), "; ".join(filter(None, (left.words, session.words)))
            for name, count in session.tokens.items():
                spent[name] = spent.get(name, 0) + count
            sessions.append(
                {
                    "state": found.state.value,
                    "rc": left.rc,
                    "signal": left.signal,
                    "seconds": round(left.seconds, 3),
                    "output": kept,
                    "how": found.how,
                    "reason": found.reason,
                    "redacted": dict(session.redacted),
                }
            )
            print(f"session {number}: {found.state.value} after {left.seconds:.0f} s {left.words}".rstrip(), flush=True)
            if left.stopped:
                raise StepError(f"judge {judge} was stopped", cause="judge_failed")
            if found.verdict is not None or left.timed_out or cause in _FINAL:
                break
            if found.outcome is Outcome.CONTRADICTORY:
                break  # asking until an answer fits would be no judging
        return self._result(spec, found, cause, words, sessions, spent)

    def _session(
        self, number: int, spec: JudgeSpec, shown: Exhibits, limit_s: float
    ) -> tuple[Collected, Left, Session, str]:
        nonce = secrets.token_hex(16)
        home = self._chamber.home
        prompt = build(self._template, spec, self._facts, shown.items, shown.absent, nonce, f"{home}/{WORK}/{FILE}")
        own = {".codex/config.toml": config(spec, home, self._chamber.path())}
        left = self._chamber.visit(Visit(number, command(spec), own, prompt, shown.binds, limit_s))
        found = _without(collect_from(left, spec, nonce), left.secrets)
        session = read_session(_tail(left.output), left.secrets)
        kept = "judge_output" + (f"_{number}" if number > 1 else "")
        files.replace(self._keep / f"{kept}.json", session.raw)
        files.replace(self._keep / f"{kept}.txt", session.text.encode("utf-8", "replace"))
        return found, left, session, kept

    def _result(
        self,
        spec: JudgeSpec,
        found: Collected,
        cause: str,
        words: str,
        sessions: list[dict[str, Any]],
        spent: Mapping[str, int],
    ) -> EngineResult:
        extra: dict[str, Any] = {
            "sessions": sessions,
            "tokens": dict(spent),
            "rules": {"state": self._rules.state.value, "verdict": self._rules.verdict, "reason": self._rules.reason},
            **self._chamber.facts,
        }
        reason = found.reason
        if found.verdict is None:
            reason = "; ".join(filter(None, (reason, words)))
            if cause:
                extra["cause"] = cause
        elif words and sessions[-1]["rc"] != 0:
            reason = "; ".join(filter(None, (reason, f"the CLI did not end well: {words}")))
        return EngineResult(
            VerdictState.TIMED_OUT if not sessions else found.state,
            found.verdict,
            sanitize(reason, limit=1000, newlines=False),
            self._rules.findings,
            engine=self.name,
            model=spec.model,
            engine_version=self._chamber.version,
            prompt_hash=prompt_hash(self._template, spec),
            extra=extra,
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


def _without(found: Collected, hidden: Mapping[str, str]) -> Collected:
    """The verdict with nothing in its texts that must not be shown."""
    if found.verdict is None:
        return found
    redactor = Redactor(hidden)

    def clean(value: bool | str) -> bool | str:
        if isinstance(value, bool):
            return value
        return redactor.redact(value.encode("utf-8", "surrogatepass"))[0].decode("utf-8", "replace")

    return replace(found, verdict={name: clean(value) for name, value in found.verdict.items()})


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
