"""What a run is worth and what a board shows (design §5, E §5). Worth is computed, never stored."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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


class VerdictSummary(_Model):
    """The verdict in force of one judge."""

    judge: str
    output_id: str
    state: VerdictState
    flagged: tuple[str, ...] = ()
    justification: str = ""
    engine: str = ""
    source: str = ""  # manual | majority | rerun | inline | imported
    effect: Literal["baseline", "quarantine", "none"] = "none"
    required: bool = False
    evidence: tuple[str, ...] = ()  # findings in words


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


class CellScore(_Model):
    """One cell of a board: the run that stands for it, raw and used value, and why."""

    method: str
    benchmark: str
    model: str
    worth: Worth
    run_id: int | None = None
    run: str = ""  # path below the root
    raw: float | None = None
    stderr: float | None = None
    used: float | None = None
    letters: str = ""
    reason: str = ""
    evidence: tuple[str, ...] = ()
    seconds: float | None = None
    other_runs: tuple[int, ...] = ()


class MethodScore(_Model):
    """One row of a board."""

    method: str
    protocol: str
    score: float | None = None  # weighted, only when every weighted cell counts or falls back
    reason: str = ""
    cells: tuple[CellScore, ...] = ()


class Board(_Model):
    """The score table of a results root under one protocol."""

    protocol: str
    policy: str = "finished"
    benchmarks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    baselines: dict[str, dict[str, float]] = Field(default_factory=dict)  # model → benchmark → score
    weights: dict[str, float] = Field(default_factory=dict)
    methods: tuple[MethodScore, ...] = ()
    problems: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # what collect wrote
    extra: dict[str, Any] = Field(default_factory=dict)
