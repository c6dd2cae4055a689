"""What can be asked of a site, and the answers (design §6). One pydantic union; the wire carries exactly these."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ptb_tui.core.baseline import BaselinesQuery, BaselinesView
from ptb_tui.core.benchmark import DiffQuery, DiffView, PromptQuery, PromptView, ProtocolsQuery, ProtocolsView
from ptb_tui.core.calibration import CalibrationQuery, CalibrationView
from ptb_tui.core.credential import CredentialsQuery, CredentialsView
from ptb_tui.core.evaluating import EvaluationQuery, EvaluationView
from ptb_tui.core.judging import JudgingQuery, JudgingView
from ptb_tui.core.review import FlaggedQuery, FlaggedView
from ptb_tui.core.rows import RunList, RunRow, RunsQuery
from ptb_tui.core.scores import Board, VerdictSummary
from ptb_tui.core.spec import Plan, Sweep
from ptb_tui.core.supply import (
    AgentsQuery,
    AgentsView,
    DataQuery,
    DataView,
    ImagesQuery,
    ImagesView,
    WorkQuery,
    WorkView,
)
from ptb_tui.core.triage import TriageQuery, TriageView

__all__ = [
    "AgentsQuery",
    "AgentsView",
    "Answer",
    "BaselinesQuery",
    "BaselinesView",
    "CalibrationQuery",
    "CalibrationView",
    "Check",
    "CredentialsQuery",
    "CredentialsView",
    "DataQuery",
    "DataView",
    "DiffQuery",
    "DiffView",
    "DoctorQuery",
    "DoctorReport",
    "EvaluationQuery",
    "EvaluationView",
    "FlaggedQuery",
    "FlaggedView",
    "ImagesQuery",
    "ImagesView",
    "JudgingQuery",
    "JudgingView",
    "PlanAnswer",
    "PlanQuery",
    "PromptQuery",
    "PromptView",
    "ProtocolsQuery",
    "ProtocolsView",
    "Query",
    "QueueQuery",
    "QueueView",
    "Range",
    "RunDetail",
    "RunList",
    "RunQuery",
    "RunRow",
    "RunsQuery",
    "ScoresAnswer",
    "ScoresQuery",
    "SlotView",
    "StepView",
    "TraceChunk",
    "TraceQuery",
    "TriageQuery",
    "TriageView",
    "WorkQuery",
    "WorkView",
    "answer_type",
    "query_type",
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunQuery(_Model):
    """One run: an id, a unique prefix of one, or a path."""

    kind: Literal["run"] = "run"
    run: str


class TraceQuery(_Model):
    """The trace of a run from a byte offset; a negative offset counts from the end. `raw`: the stamped lines."""

    kind: Literal["trace"] = "trace"
    run: str
    offset: int = 0
    raw: bool = False


class PlanQuery(_Model):
    """What a sweep would do here."""

    kind: Literal["plan"] = "plan"
    sweep: Sweep


class QueueQuery(_Model):
    """Slots and waiting runs."""

    kind: Literal["queue"] = "queue"


class ScoresQuery(_Model):
    """The score table. An empty protocol means: of the newest runs. `groups` are rows of the leaderboard: name →
    methods. `files`: also name what `collect` would write, to `out` and to the folder `report`."""

    kind: Literal["scores"] = "scores"
    protocol: str = ""
    policy: Literal["finished", "upstream"] = "finished"
    methods: tuple[str, ...] = ()
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    files: bool = False
    out: str = ""
    report: str = ""


class DoctorQuery(_Model):
    """Everything that could stand in the way here."""

    kind: Literal["doctor"] = "doctor"


Query = Annotated[
    RunsQuery
    | RunQuery
    | TraceQuery
    | PlanQuery
    | QueueQuery
    | ScoresQuery
    | DoctorQuery
    | TriageQuery
    | WorkQuery
    | ImagesQuery
    | DataQuery
    | AgentsQuery
    | BaselinesQuery
    | CalibrationQuery
    | ProtocolsQuery
    | DiffQuery
    | PromptQuery
    | CredentialsQuery
    | FlaggedQuery
    | JudgingQuery
    | EvaluationQuery,
    Field(discriminator="kind"),
]


class StepView(_Model):
    """One step as shown."""

    number: int
    name: str
    state: str
    cause: str = ""
    phase: str = ""
    why: str = ""
    flags: tuple[str, ...] = ()
    started: str = ""
    seconds: float | None = None
    limit_s: float | None = None


class RunDetail(_Model):
    """Answer to `RunQuery`."""

    kind: Literal["run"] = "run"
    row: RunRow
    spec: dict[str, Any] = Field(default_factory=dict)
    steps: tuple[StepView, ...] = ()
    verdicts: tuple[VerdictSummary, ...] = ()
    metrics: dict[str, Any] | None = None
    spread: dict[str, float | int | None] | None = None  # of the accuracy over seeds: n, mean, std, low, high
    files: dict[str, int] = Field(default_factory=dict)  # name → bytes
    telemetry: dict[str, Any] | None = None
    facts: dict[str, Any] = Field(default_factory=dict)


class TraceChunk(_Model):
    """Answer to `TraceQuery`: text, where it came from, and where to go on."""

    kind: Literal["trace"] = "trace"
    run_id: int
    offset: int
    next: int
    size: int
    text: str
    ended: bool = False  # nothing more will be written


class SlotView(_Model):
    """One slot and who holds it."""

    name: str
    busy: bool
    holder: str = ""


class QueueView(_Model):
    """Answer to `QueueQuery`."""

    kind: Literal["queue"] = "queue"
    slots: tuple[SlotView, ...] = ()
    waiting: tuple[RunRow, ...] = ()
    running: tuple[RunRow, ...] = ()


class Check(_Model):
    """One line of doctor: ok, bad, or cannot tell."""

    name: str
    state: Literal["ok", "bad", "unknown"]
    words: str
    remedy: str = ""


class DoctorReport(_Model):
    """Answer to `DoctorQuery`."""

    kind: Literal["doctor"] = "doctor"
    checks: tuple[Check, ...] = ()


class PlanAnswer(_Model):
    """Answer to `PlanQuery`."""

    kind: Literal["plan"] = "plan"
    plan: Plan


class ScoresAnswer(_Model):
    """Answer to `ScoresQuery`."""

    kind: Literal["scores"] = "scores"
    board: Board


Answer = Annotated[
    RunList
    | RunDetail
    | TraceChunk
    | PlanAnswer
    | QueueView
    | ScoresAnswer
    | DoctorReport
    | TriageView
    | WorkView
    | ImagesView
    | DataView
    | AgentsView
    | BaselinesView
    | CalibrationView
    | ProtocolsView
    | DiffView
    | PromptView
    | CredentialsView
    | FlaggedView
    | JudgingView
    | EvaluationView,
    Field(discriminator="kind"),
]


@cache
def query_type() -> TypeAdapter[Query]:
    """Reads any query; built at first use, because building takes a while."""
    return TypeAdapter(Query)


@cache
def answer_type() -> TypeAdapter[Answer]:
    """Reads any answer."""
    return TypeAdapter(Answer)


class Range(_Model):
    """Bytes of a file of a run; `name` is relative to the run directory and never leaves it."""

    run: str
    name: str
    offset: int = 0
    length: int = Field(default=1 << 18, ge=0, le=1 << 20)
