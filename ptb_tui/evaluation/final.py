"""The final evaluation as a sequence of attempts (E §1.7.4): seeds, the ladder of token limits, when to stop.

Pure but for the output folder and the attempt that is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ptb_tui.core.causes import cause as cause_row
from ptb_tui.core.errors import NotAllowed
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
    """What one attempt gave. `metrics` is there exactly when it succeeded; `key` is equal for equal failures."""

    metrics: dict[str, Any] | None
    seconds: float
    cause: str = ""
    words: str = ""
    key: str = ""
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as it is recorded; `n` counts from 1 within the seed."""

    seed: int
    stage: int
    n: int
    max_tokens: int | None
    result: AttemptResult | None = None  # None while it runs

    def to_json(self) -> dict[str, Any]:
        """Plain form for result.json and progress.json."""
        record: dict[str, Any] = {"seed": self.seed, "stage": self.stage, "n": self.n, "max_tokens": self.max_tokens}
        if self.result is not None:
            record["ok"] = self.result.metrics is not None
            record["seconds"] = round(self.result.seconds, 3)
            if self.result.metrics is None:
                record |= {"cause": self.result.cause, "why": self.result.words, "timed_out": self.result.timed_out}
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


NO_TIME = "the time of the step is used up"
RunAttempt = Callable[[int, int, int, int | None], AttemptResult]
Report = Callable[[Attempt], None]


def new_output(run_dir: Path) -> Path:
    """Create the output folder of a new evaluation: `evaluation`, else `evaluation_2` … Never an existing one."""
    for number in range(1, 10_000):
        folder = run_dir / ("evaluation" if number == 1 else f"evaluation_{number}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
    raise NotAllowed(f"{run_dir} has too many evaluations")


def _tries(ladder: Sequence[Rung], start: int) -> list[tuple[int, int | None]]:
    return [(stage, rung.max_tokens) for stage, rung in enumerate(ladder) if stage >= start for _ in range(rung.tries)]


def total_attempts(ladder: Sequence[Rung]) -> int:
    """How many attempts one seed may take."""
    return len(_tries(ladder, 0))


def _run_seed(
    seed: int,
    start: int,
    ladder: Sequence[Rung],
    run_attempt: RunAttempt,
    identical: int,
    report: Report,
    time_left: Callable[[], bool],
) -> tuple[list[Attempt], str]:
    """All attempts of one seed, and why they stopped early ("" when they did not)."""
    attempts: list[Attempt] = []
    same = 0
    for n, (stage, max_tokens) in enumerate(_tries(ladder, start), 1):
        if not time_left():
            return attempts, NO_TIME
        report(Attempt(seed, stage, n, max_tokens))
        result = run_attempt(seed, stage, n, max_tokens)
        attempt = Attempt(seed, stage, n, max_tokens, result)
        attempts.append(attempt)
        report(attempt)
        if result.metrics is not None:
            return attempts, ""
        fast = not result.timed_out and result.seconds <= FAST_S
        before = attempts[-2].result if len(attempts) > 1 else None
        same = (same + 1 if before is not None and before.key == result.key and same else 1) if fast else 0
        if same >= identical:
            return attempts, f"{same} fast failures with the same words"
    return attempts, ""


def _verdict(attempts: Sequence[Attempt]) -> tuple[str, str]:
    """Cause and words for a first seed that failed everywhere.

    A cause that is not the agent's stands only when no attempt failed for another reason: one that reached the model
    and failed there shows that the site was able to run it.
    """
    results = [attempt.result for attempt in attempts if attempt.result is not None]
    found = {result.cause for result in results}
    cause = next(iter(found)) if len(found) == 1 else "eval_failed"
    if cause_row(cause).owner == "agent":
        cause = "eval_failed"
    return cause, results[-1].words


def run_final(
    seeds: Sequence[int],
    ladder: Sequence[Rung],
    run_attempt: RunAttempt,
    *,
    identical_failures: int = 3,
    report: Report = lambda _: None,
    time_left: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Measure every seed.

    `run_attempt(seed, stage, n, max_tokens)` makes one attempt. The first seed walks the whole ladder; when it fails
    everywhere nothing else is tried. Later seeds start at its stage, and one that fails is left out. A seed stops
    after `identical_failures` fast failures in a row with the same words (case A20). `report` is called before and
    after each attempt. No attempt is begun once `time_left` says no: seeds measured by then count, and a first seed
    without a measurement ends with cause "step_limit", which is not the model's fault.
    """
    if not seeds or len(set(seeds)) != len(seeds):
        raise NotAllowed("an evaluation needs at least one seed, and each only once")
    outcome = Outcome(tuple(seeds))
    for number, seed in enumerate(seeds):
        attempts, stopped = _run_seed(
            seed, outcome.stage or 0, ladder, run_attempt, identical_failures, report, time_left
        )
        outcome.attempts += attempts
        last = attempts[-1].result if attempts else None
        if last is not None and last.metrics is not None:
            outcome.measured[seed] = SeedMetrics(attempts[-1].stage, last.metrics)
        elif number == 0:
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
