"""What a run is worth and what a board shows (design §5, E §5). Worth is computed, never stored."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.core.calibration import Calibration
from ptb_tui.core.verdict import VerdictState


class Worth(StrEnum):
    """What one run counts for."""

    SCORED = "scored"
    FLAGGED = "flagged"
    QUARANTINED = "quarantined"
    UNJUDGED = "unjudged"
    NO_MODEL = "no_model"
    INVALID_MODEL = "invalid_model"
    EVAL_FAILED = "eval_failed"
    GRADING_INCOMPLETE = "grading_incomplete"
    FAILED = "failed"
    RUNNING = "running"
    MISSING = "missing"
    VOID = "void"

    @property
    def counts(self) -> bool:
        """Whether the cell has a value that stands for the agent's work."""
        return self in (Worth.SCORED, Worth.FLAGGED, Worth.NO_MODEL, Worth.INVALID_MODEL, Worth.EVAL_FAILED)

    @property
    def uses_baseline(self) -> bool:
        """Whether the value used is the base model's."""
        return self.counts and self is not Worth.SCORED


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class ReviewSummary(_Model):
    """A person's decision about a verdict."""

    decision: str  # clear | flag | confirm
    field: str = ""  # the one flag that was decided; empty: all
    operator: str = ""
    when: str = ""
    reason: str = ""


class VerdictSummary(_Model):
    """The verdict in force of one judge, and what else a person should see of it.

    `plain` is the state under the policy `upstream`, which knows no contradiction. `opinions` are the flags of every
    vote and rerun that can be read: whether it flagged anything. `file` is below the run's directory or absolute.
    """

    judge: str
    output_id: str
    state: VerdictState
    flagged: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # all that the judge has
    justification: str = ""
    engine: str = ""
    model: str = ""
    source: str = ""  # review | manual | majority | rerun | inline | none
    effect: Literal["baseline", "quarantine", "none"] = "none"
    required: bool = False
    evidence: tuple[str, ...] = ()  # findings in words
    plain: VerdictState | None = None
    imported: bool = False
    votes: int = 0
    wanted: int = 1  # votes that were asked for
    split: str = ""
    hint: str = ""
    reason: str = ""  # why it is contradictory, unreadable …
    changed: str = ""
    later: str = ""
    extras: tuple[str, ...] = ()
    opinions: tuple[bool, ...] = ()
    cost_usd: float | None = None
    prompt_hash: str = ""
    file: str = ""
    review: ReviewSummary | None = None
    calibration: Calibration | None = None  # of the judge; looked up when one run is shown


class RunFacts(_Model):
    """What the files of one run say that decides its worth."""

    run_id: int
    accuracy: float | None = None
    stderr: float | None = None
    metrics_problem: str = ""  # why metrics.json is there but not usable
    has_model: bool | None = None  # None: not known (foreign or unfinished)
    agent_done: bool = False
    agent_cause: str = ""
    eval_state: str = ""  # "", or the state word of the newest evaluation step
    eval_cause: str = ""
    exhausted: bool = False  # the original's ninth attempt log is there
    seconds: float | None = None
    time_problem: str = ""
    verdicts: tuple[VerdictSummary, ...] = ()
    void: str = ""  # reason of a void decision in force
    pin: str = ""  # reason of a pin in force
    pinned: str = ""  # when that pin was set, so that the newest of a cell wins
    seeds: tuple[float, ...] = ()  # accuracy of each seed, where the evaluation had several
    cli_version: str = ""  # of the agent's CLI; empty when nobody noted it
    has_trace: bool = False


class CellScore(_Model):
    """One cell of a board: the run that stands for it, raw and used value, and why.

    `by` is the policy that chose the run. `verdicts` is judge → state of the run that stands. None is unknown.
    """

    method: str
    benchmark: str
    model: str
    worth: Worth
    run_id: int | None = None
    run: str = ""  # path below the root
    by: str = ""  # finished | upstream | pin
    raw: float | None = None
    stderr: float | None = None
    seeds: tuple[float, ...] = ()
    used: float | None = None
    letters: str = ""
    flagged: tuple[str, ...] = ()  # flags that are up, of any judge
    reason: str = ""
    evidence: tuple[str, ...] = ()
    verdicts: dict[str, str] = Field(default_factory=dict)
    opinions: dict[str, tuple[bool, ...]] = Field(default_factory=dict)  # judge → what each vote or rerun said
    seconds: float | None = None
    cost_usd: float | None = None
    tokens: int | None = None
    origin: str = ""
    fingerprint: str = ""
    cli_version: str = ""
    other_runs: tuple[int, ...] = ()


class MethodScore(_Model):
    """One row of a board. `raw_score` takes what was measured wherever something was, whatever judges say; it stands
    only beside a score, so that nobody takes what was not judged for one."""

    method: str
    protocol: str
    score: float | None = None  # weighted, only when every weighted cell counts or falls back
    raw_score: float | None = None
    reason: str = ""
    cells: tuple[CellScore, ...] = ()
    seconds: float | None = None  # mean of the agent's time over evaluated runs
    cost_usd: float | None = None  # of all cells; None unless every run that stands has one
    tokens: int | None = None
    marks: tuple[str, ...] = ()  # what is mixed in this row
    withheld: bool = False  # a required verdict is missing: the original writes no table for it


class GroupScore(_Model):
    """One row of the leaderboard: methods that repeat each other (E §0.4). Scores are fractions; None is undefined.

    `low` and `high` bound the 95 % interval; `interval` says what it is made of. `published` rows have no runs here.
    """

    name: str
    methods: tuple[str, ...] = ()
    score: float | None = None
    std: float | None = None  # sample deviation over the methods; None for one
    n: int = 0
    low: float | None = None
    high: float | None = None
    interval: str = ""
    raw_score: float | None = None
    reason: str = ""  # why there is no score
    cells: int = 0
    counted: int = 0  # cells with a value that stands for the agent's work
    missing: tuple[str, ...] = ()  # cells that do not count, in words
    letters: dict[str, int] = Field(default_factory=dict)  # M, C, A, and quarantined → cells
    agreement: tuple[int, int] = (0, 0)  # (verdicts on which all opinions agree, verdicts with several)
    other_weights: dict[str, float] = Field(default_factory=dict)  # score with equal weights, and without each task
    seconds: float | None = None
    seconds_std: float | None = None
    cost_usd: float | None = None  # of one method, mean
    tokens: int | None = None
    marks: tuple[str, ...] = ()
    published: bool = False


class Board(_Model):
    """The score table of a results root under one protocol."""

    protocol: str
    policy: str = "finished"
    benchmarks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    baselines: dict[str, dict[str, float]] = Field(default_factory=dict)  # model → benchmark → score
    weights: dict[str, float] = Field(default_factory=dict)
    methods: tuple[MethodScore, ...] = ()
    groups: tuple[GroupScore, ...] = ()
    references: tuple[GroupScore, ...] = ()  # published rows of the protocol
    problems: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # what collect wrote
    extra: dict[str, Any] = Field(default_factory=dict)
