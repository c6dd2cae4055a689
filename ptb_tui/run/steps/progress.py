"""Attempts of an evaluation as others see them: kept on disk, told to whoever watches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ptb_tui.core import clock, files
from ptb_tui.evaluation import final
from ptb_tui.evaluation.record import Record
from ptb_tui.run.steps.attempt import Attempts


class Progress:
    """One line for each attempt in the step's log, and `progress.json` for whoever watches (case A20)."""

    def __init__(self, step_folder: Path, of: int, limit_s: float, seeds: Sequence[int]) -> None:
        self.path, self.of, self.limit_s, self.seeds = step_folder / "progress.json", of, limit_s, tuple(seeds)
        self.last = ""

    def __call__(self, attempt: final.Attempt, known: bool = False) -> None:
        """Called before and after each attempt; `known`: it was made before."""
        tokens = f", at most {attempt.max_tokens} tokens" if attempt.max_tokens is not None else ""
        eased = f", eased {attempt.ease} times" if attempt.ease else ""
        where = f"seed {attempt.seed}: attempt {attempt.n} of {self.of}, stage {attempt.stage}{tokens}{eased}"
        again = " (kept from before)" if known else ""
        if attempt.result is None:
            print(where + again, flush=True)
        elif attempt.result.metrics is not None:
            self.last = f"accuracy {attempt.result.metrics['accuracy']:.4f}"
            print(f"{where}: {self.last} after {attempt.result.seconds:.0f} s{again}", flush=True)
        else:
            self.last = attempt.result.words
            print(f"{where}: failed after {attempt.result.seconds:.0f} s{again}: {self.last}", flush=True)
        record = {
            "v": 1,
            "attempt": attempt.n,
            "of": self.of,
            "seed": attempt.seed,
            "seeds": list(self.seeds),
            "stage": attempt.stage,
            "max_tokens": attempt.max_tokens,
            "running": attempt.result is None,
            "limit_s": self.limit_s,
            "last": self.last,
            "t": clock.utc_text(),
        }
        files.replace(self.path, files.dump(record))


@dataclass(slots=True)
class Kept:
    """Attempts on disk: one that ended before is not made again."""

    record: Record
    attempts: Attempts
    progress: Progress
    made: int = 0

    def known(self, attempt: final.Attempt) -> bool:
        """Whether this attempt ended before."""
        return self.record.known(replace(attempt, result=None)) is not None

    def __call__(self, attempt: final.Attempt) -> final.AttemptResult:
        """The result of an attempt, made now if it is not known."""
        if (known := self.record.known(attempt)) is not None:
            return known
        self.made += 1
        result = self.attempts(attempt)
        self.record.note(replace(attempt, result=result))
        return result

    def report(self, attempt: final.Attempt) -> None:
        """Tell whoever watches."""
        self.progress(attempt, self.known(attempt) and not (attempt.result and self.made))
