"""Asking for one vote: sessions until one leaves a verdict, and the result of them all (E §3.7, §8.1).

What a session is, an engine says; here is how often one is had and what is kept of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.core.errors import StepError
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import EngineResult, Evidence, JudgeSpec, VerdictState
from ptb_tui.judging.collect import Collected, Outcome
from ptb_tui.judging.exhibits import Exhibits, lay_out
from ptb_tui.judging.prompting import PromptFacts, prompt_hash
from ptb_tui.judging.sessions import Session, read_session
from ptb_tui.traces.redact import Redactor

LEAST_S = 2.0  # a session shorter than this is not begun
FINAL = ("credential", "provider_limit")  # asking again at once changes nothing


@dataclass(frozen=True, slots=True)
class Case:
    """What an engine is asked with. `template` is the folder's prompt, `rules` what the rules said before, `place` a
    new folder for the evidence, `keep` where outputs stay, `ends` when it must be over (`clock.monotonic`)."""

    template: str
    facts: PromptFacts
    rules: EngineResult
    place: Path
    keep: Path
    ends: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """One session and what became of it. `well`: it ended as it should. `cause` and `words` say why it did not.
    `facts` go into the record; `tokens` and `cost` are what is known."""

    found: Collected
    seconds: float
    cause: str = ""
    words: str = ""
    well: bool = True
    timed_out: bool = False
    stopped: bool = False
    tokens: Mapping[str, int] = field(default_factory=dict)
    cost: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class Trying(ABC):
    """An engine that judges in sessions."""

    name = ""

    def __init__(self, case: Case) -> None:
        self.case = case

    @abstractmethod
    def session(self, number: int, spec: JudgeSpec, shown: Exhibits, limit_s: float) -> Attempt:
        """Have one session. StepError for what is ours."""

    @property
    @abstractmethod
    def version(self) -> str:
        """Of the engine, for the record."""

    @property
    @abstractmethod
    def about(self) -> Mapping[str, Any]:
        """Further facts for the record, complete after a session."""

    def judge(self, judge: str, spec: JudgeSpec, evidence: Evidence) -> EngineResult:
        """Judge one run; as many sessions as `tries` allows until one leaves a verdict. StepError for what is ours."""
        shown = lay_out(evidence, self.case.rules, self.case.place)
        tried: list[Attempt] = []
        for number in range(1, spec.tries + 1):
            left_s = self.case.ends - clock.monotonic()
            if left_s < LEAST_S or (tried and left_s < tried[-1].seconds):
                break
            last = self.session(number, spec, shown, left_s)
            tried.append(last)
            print(f"session {number}: {last.found.state.value} after {last.seconds:.0f} s {last.words}".rstrip())
            if last.stopped:
                raise StepError(f"judge {judge} was stopped", cause="judge_failed")
            if last.found.verdict is not None or last.timed_out or last.cause in FINAL:
                break
            if last.found.outcome is Outcome.CONTRADICTORY:
                break  # asking until an answer fits would be no judging
        return self._result(spec, tried)

    def kept(self, number: int, output: bytes, hidden: Mapping[str, str]) -> tuple[str, Session]:
        """Keep what a session printed, without secrets: (name of the files without ending, what it says)."""
        session, name = read_session(output, hidden), "judge_output" + (f"_{number}" if number > 1 else "")
        files.replace(self.case.keep / f"{name}.json", session.raw)
        files.replace(self.case.keep / f"{name}.txt", session.text.encode("utf-8", "replace"))
        return name, session

    def _result(self, spec: JudgeSpec, tried: list[Attempt]) -> EngineResult:
        rules, spent = self.case.rules, dict[str, int]()
        for attempt in tried:
            for name, count in attempt.tokens.items():
                spent[name] = spent.get(name, 0) + count
        costs = [attempt.cost for attempt in tried]
        known = [cost for cost in costs if cost is not None]
        extra: dict[str, Any] = {
            "sessions": [_row(attempt) for attempt in tried],
            "tokens": spent,
            "rules": {"state": rules.state.value, "verdict": rules.verdict, "reason": rules.reason},
            **self.about,
        }
        last = tried[-1] if tried else None
        found = last.found if last else Collected(Outcome.MISSING, reason="no session was begun")
        parts = [found.reason]
        if last is not None and found.verdict is None:
            parts.append(last.words)
            if last.cause:
                extra["cause"] = last.cause
        elif last is not None and last.words and not last.well:
            parts.append(f"the session did not end well: {last.words}")
        return EngineResult(
            found.state if tried else VerdictState.TIMED_OUT,
            found.verdict,
            sanitize("; ".join(filter(None, parts)), limit=1000, newlines=False),
            rules.findings,
            engine=self.name,
            model=spec.model,
            engine_version=self.version,
            prompt_hash=prompt_hash(self.case.template, spec, self.name),
            cost_usd=sum(known) if known and len(known) == len(costs) else None,
            extra=extra,
        )


def _row(attempt: Attempt) -> dict[str, Any]:
    found = attempt.found
    row = {"state": found.state.value, "seconds": round(attempt.seconds, 3), "how": found.how, "reason": found.reason}
    return {**row, **attempt.facts}


def without(found: Collected, hidden: Mapping[str, str]) -> Collected:
    """The verdict, or why there is none, with nothing in its texts that must not be shown: a judge may have been led to
    write a key anywhere, as the name of a field too."""
    redactor = Redactor(hidden)

    def clean(text: str) -> str:
        return redactor.redact(text.encode("utf-8", "replace"))[0].decode("utf-8", "replace")

    verdict = found.verdict and {
        name: clean(value) if isinstance(value, str) else value for name, value in found.verdict.items()
    }
    return replace(found, verdict=verdict, reason=clean(found.reason))
