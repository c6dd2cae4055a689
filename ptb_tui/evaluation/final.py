"""The final evaluation as a sequence of attempts (E §1.7.4): seeds, the ladder of token limits, when to stop.

Pure: the attempts are made by whoever calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ptb_tui.core.causes import cause as cause_row
from ptb_tui.core.errors import NotAllowed
from ptb_tui.evaluation.classify import kind_of
from ptb_tui.evaluation.seeds import SeedMetrics

FAST_S = 120.0  # a failure within this time is "fast"


class Rung(Protocol):
    """One stage: a token limit (None is the script's own) and how often it is tried."""

    @property
    def max_tokens(self) -> int | None:
        """The limit on generated tokens."""

    @property
    def tries(self) -> int:
        """How many attempts."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """What one attempt gave. `metrics` is there exactly when it succeeded; `key` is equal for equal failures, `kind` is
    a class of `classes.toml`."""

    metrics: dict[str, Any] | None
    seconds: float
    cause: str = ""
    words: str = ""
    key: str = ""
    timed_out: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as it is recorded; `n` counts from 1 within the seed. `ease` says how often what does not change the
    protocol (requests at a time, share of the GPU's memory) was lowered before it."""

    seed: int
    stage: int
    n: int
    max_tokens: int | None
    result: AttemptResult | None = None  # None while it runs
    ease: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain form for result.json and progress.json."""
        record: dict[str, Any] = {"seed": self.seed, "stage": self.stage, "n": self.n, "max_tokens": self.max_tokens}
        if self.ease:
            record["ease"] = self.ease
        if self.result is not None:
            record["ok"] = self.result.metrics is not None
            record["seconds"] = round(self.result.seconds, 3)
            if self.result.metrics is None:
                record |= {"cause": self.result.cause, "why": self.result.words, "timed_out": self.result.timed_out}
                record["kind"] = self.result.kind
        return record


@dataclass(slots=True)
class Outcome:
    """What the whole evaluation gave. `cause` is "" when at least the first seed was measured."""

    seeds: tuple[int, ...]
    measured: dict[int, SeedMetrics] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    cause: str = ""
    why: str = ""

    @property
    def stage(self) -> int | None:
        """The stage at which the first seed was measured."""
        first = self.measured.get(self.seeds[0])
        return first.stage if first else None

    @property
    def ease(self) -> int:
        """How far the first seed's successful attempt was eased; 0 without one."""
        return next((a.ease for a in self.attempts if a.seed == self.seeds[0] and a.result and a.result.metrics), 0)


NO_TIME = "the time of the step is used up"
OPEN = frozenset(("grading_incomplete", "step_limit"))
"""Causes of an evaluation that can be gone on with: what was measured and graded is kept."""
RunAttempt = Callable[[Attempt], AttemptResult]
Report = Callable[[Attempt], None]


def total_attempts(ladder: Sequence[Rung]) -> int:
    """How many attempts one seed may take."""
    return sum(rung.tries for rung in ladder)


@dataclass(slots=True)
class _Position:
    """Where one seed stands on the ladder."""

    ladder: Sequence[Rung]
    eases: int
    stage: int
    ease: int
    tried: int = 0  # at this stage
    n: int = 0
    row: int = 0  # failures of the same class in a row, since something was last lowered
    same: int = 0  # fast failures with the same words, likewise
    last: AttemptResult | None = None

    def next(self, seed: int) -> Attempt | None:
        """The next attempt; None at the end of the ladder."""
        while self.stage < len(self.ladder) and self.tried >= self.ladder[self.stage].tries:
            self.stage, self.tried = self.stage + 1, 0
        if self.stage >= len(self.ladder):
            return None
        self.tried, self.n = self.tried + 1, self.n + 1
        return Attempt(seed, self.stage, self.n, self.ladder[self.stage].max_tokens, ease=self.ease)

    def failed(self, result: AttemptResult, identical: int) -> str:
        """Take note of a failure; why no further attempt is of use, or ""."""
        fast = not result.timed_out and result.seconds <= FAST_S
        repeated = self.last is not None and self.last.key == result.key
        self.same = (self.same + 1 if repeated and self.same else 1) if fast else 0
        self.row = self.row + 1 if self.last is not None and self.last.kind == result.kind else 1
        self.last = result
        kind = kind_of(result.kind)
        if self.row >= kind.after:
            if kind.then == "stop" and (repeated or kind.after == 1):
                return f"another attempt would end in the same way ({kind.name})"
            if kind.then == "ease" and self.ease < self.eases:
                self.ease, self.same, self.row = self.ease + 1, 0, 0
            elif kind.then in ("ease", "next_stage"):
                self.stage, self.tried, self.same, self.row = self.stage + 1, 0, 0, 0
        return f"{self.same} fast failures with the same words" if self.same >= identical else ""


def _verdict(attempts: Sequence[Attempt]) -> tuple[str, str]:
    """Cause and words for a first seed that failed everywhere.

    A cause that is not the agent's stands only when no attempt failed for another reason: one that reached the model
    and failed there shows that the site was able to run it. A grader that stops answering has had answers to grade.
    """
    results = [attempt.result for attempt in attempts if attempt.result is not None]
    found = {result.cause for result in results}
    cause = next(iter(found)) if len(found) == 1 else "eval_failed"
    if results[-1].cause == "grading_incomplete":
        cause = "grading_incomplete"
    if cause_row(cause).owner == "agent":
        cause = "eval_failed"
    return cause, results[-1].words


def run_final(
    seeds: Sequence[int],
    ladder: Sequence[Rung],
    run_attempt: RunAttempt,
    *,
    identical_failures: int = 3,
    eases: int = 0,
    report: Report = lambda _: None,
    time_left: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Measure every seed.

    `run_attempt` makes one attempt. The first seed walks the ladder; when it fails everywhere nothing else is tried.
    Later seeds start where it succeeded, and one that fails is left out. The ladder's counts are the most that is
    tried: a class of failures that a repeat does not help goes on sooner, or ends the seed (`classes.toml`), and so do
    `identical_failures` fast failures in a row with the same words (case A20). `eases` is how often an attempt can be
    eased. `report` is called before and after each attempt. No attempt is begun once `time_left` says no: seeds
    measured by then count, and a first seed without a measurement ends with cause "step_limit", which is not the
    model's fault. A grader that cannot go on leaves no score at all, whichever seed it was.
    """
    if not seeds or len(set(seeds)) != len(seeds):
        raise NotAllowed("an evaluation needs at least one seed, and each only once")
    outcome = Outcome(tuple(seeds))
    for number, seed in enumerate(seeds):
        at = _Position(ladder, eases, outcome.stage or 0, outcome.ease)
        attempts, stopped = _run_seed(seed, at, run_attempt, identical_failures, report, time_left)
        outcome.attempts += attempts
        last = attempts[-1].result if attempts else None
        if last is not None and last.metrics is not None:
            outcome.measured[seed] = SeedMetrics(attempts[-1].stage, last.metrics)
        elif number == 0 or (last is not None and last.cause == "grading_incomplete"):
            outcome.cause, words = _verdict(attempts) if attempts else ("step_limit", NO_TIME)
            if stopped == NO_TIME:
                outcome.cause = "step_limit"
            tried = f"{len(attempts)} attempt{'' if len(attempts) == 1 else 's'}"
            outcome.why = f"{tried} failed{f' ({stopped})' if stopped else ''}; last: {words}"
            break
        if stopped == NO_TIME:
            outcome.why = f"seed {seed} was not measured: {NO_TIME}"
            break
    return outcome


def _run_seed(
    seed: int,
    at: _Position,
    run_attempt: RunAttempt,
    identical: int,
    report: Report,
    time_left: Callable[[], bool],
) -> tuple[list[Attempt], str]:
    """All attempts of one seed, and why they stopped early ("" when they did not)."""
    attempts: list[Attempt] = []
    while (attempt := at.next(seed)) is not None:
        if not time_left():
            return attempts, NO_TIME
        report(attempt)
        result = run_attempt(attempt)
        attempts.append(replace(attempt, result=result))
        report(attempts[-1])
        if result.metrics is not None:
            return attempts, ""
        if result.cause == "step_limit":
            return attempts, NO_TIME
        if stopped := at.failed(result, identical):
            return attempts, stopped
    return attempts, ""
