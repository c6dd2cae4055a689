"""What is to be run: the sweep a person writes, the spec of one run, the plan between them (design §5, §5a)."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from ptb_tui.core import names
from ptb_tui.core.errors import ConfigError, PtbError
from ptb_tui.core.explain import explain
from ptb_tui.core.panel import MAX_VOTES, Seat, spread
from ptb_tui.core.panel import EngineName as EngineName


def _hours(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("hours must be a number such as 10 or 0.5")
    if isinstance(value, str):
        return names.parse_hours(value)
    if not 0 < value < 1e6:
        raise ValueError(f"hours must be above zero, not {value}")
    return names.parse_hours(names.format_hours(value))


def _word(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", value):
        raise ValueError("must be a folder name: letters, digits, `_`, `.` and `-`")
    return value


def _experiment(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]*", value):
        raise ValueError("may hold letters, digits, `_`, `.` and `-` only; it becomes part of a directory name")
    return value


def _model(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*", value):
        raise ValueError("must be ORGANISATION/NAME as on the hub, or local/NAME")
    return value


def _config(value: str) -> str:
    if not value or not value.isprintable() or len(value) > 120 or value.startswith("-"):
        raise ValueError("must be a printable model id of at most 120 characters that does not begin with a dash")
    if names.safe(value).strip(".") == "" or "\\" in value or ".." in value:
        raise ValueError("cannot become part of a directory name")
    return value


Hours = Annotated[float, BeforeValidator(_hours)]
Word = Annotated[str, AfterValidator(_word)]
Experiment = Annotated[str, AfterValidator(_experiment)]
ModelId = Annotated[str, AfterValidator(_model)]
AgentConfig = Annotated[str, AfterValidator(_config)]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Judging(_File):
    """`[judging]` of a sweep. None means: as the protocol says."""

    engine: EngineName | None = None
    model: str | None = Field(default=None, min_length=1, max_length=200)
    votes: int | None = Field(default=None, ge=1, le=MAX_VOTES)
    judges: tuple[Word, ...] | None = None
    when: Literal["own", "inline"] | None = None


class Limits(_File):
    """`[limits]` of a sweep."""

    max_parallel: int | None = Field(default=None, ge=1)
    per_credential: int | None = Field(default=None, ge=1)
    budget_usd: float | None = Field(default=None, gt=0)


class Cell(_File):
    """A pattern over cells for `exclude`; what is not named matches everything."""

    agent: str | None = None
    config: str | None = None
    task: str | None = None
    model: str | None = None


class SweepAgent(_File):
    """`[[agents]]`: one agent with its config; any key of the sweep except tasks and models may be overridden."""

    agent: Word
    config: AgentConfig
    experiment: Experiment | None = None
    hours: Hours | None = None
    gpus: int | None = Field(default=None, ge=0, le=64)
    repeats: int | None = Field(default=None, ge=1, le=99)
    priority: int | None = None
    protocol: Word | None = None


class Sweep(_File):
    """A sweep file, `sweeps/NAME.toml` (design §5a)."""

    v: Literal[1] = 1
    name: Word
    protocol: Word = "1.2"
    experiment: Experiment = ""
    hours: Hours = 10.0
    gpus: int = Field(default=1, ge=0, le=64)
    repeats: int = Field(default=1, ge=1, le=99)
    priority: int = 100
    tasks: tuple[Word, ...] = Field(min_length=1)
    models: tuple[ModelId, ...] = Field(min_length=1)
    exclude: tuple[Cell, ...] = ()
    agents: tuple[SweepAgent, ...] = Field(min_length=1)
    judging: Judging = Judging()
    limits: Limits = Limits()
    endpoints: dict[str, str] = Field(default_factory=dict)
    backend: dict[str, Any] = Field(default_factory=dict)
    rerun: Literal["missing", "changed"] = "missing"  # changed: also what has a result under another fingerprint alone

    @property
    def digest(self) -> str:
        """Content digest of the sweep."""
        return digest_of(self.model_dump(mode="json"))


class ProtocolRef(_File):
    """Which benchmark exactly: the protocol's name, the fingerprint over the bytes used, the digest of the items."""

    name: str
    fingerprint: str
    data: str = ""


class JudgePlan(_File):
    """One judge as it will be asked for a run."""

    judge: Word
    engine: EngineName
    votes: int = 1
    effect: Literal["baseline", "quarantine", "none"] = "none"
    required: bool = False
    seats: tuple[Seat, ...] = ()  # one for each vote, in order; in specs of older versions none

    @property
    def asked(self) -> tuple[Seat, ...]:
        """Who gives each vote."""
        return self.seats or spread([Seat(engine=self.engine, votes=self.votes)])

    @property
    def engines(self) -> frozenset[EngineName]:
        """The engines of all votes."""
        return frozenset(seat.engine for seat in self.asked)

    @model_serializer(mode="wrap")
    def _plain(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        if not self.seats:  # the digest of an older spec stays what it was
            found.pop("seats", None)
        return found


class RunSpec(BaseModel):
    """`spec.json`: everything that decides one run. Immutable; `digest` is over all that would change the result."""

    model_config = ConfigDict(extra="allow", frozen=True)  # a newer version may add keys

    v: Literal[1] = 1
    id: int = 0
    token: str = ""
    agent: Word
    config: AgentConfig
    benchmark: Word
    base_model: ModelId
    hours: Hours
    gpus: int = 1
    experiment: Experiment = ""
    priority: int = 100
    protocol: ProtocolRef
    prompt: str = ""  # a file of tasks/prompts, where it is another than the protocol's
    judges: tuple[JudgePlan, ...] = ()
    judges_when: Literal["own", "inline"] = "inline"
    network: Literal["full", "none", "gateway"] = "gateway"
    images: dict[str, str] = Field(default_factory=dict)  # role → file (@digest where the name has none)
    containers: str = ""  # the folder of the images
    scratch_gib: float | None = None  # what one step may hold on disk; the site may say less
    keys: tuple[str, ...] = ()  # names; values are read when the agent starts
    credential: str = ""  # name of the login it works with
    credential_file: str = ""  # where the plan found it, when that is not the site's own store
    per_credential: int | None = None  # so many runs at a time may use it
    credential_state: str = ""  # the lock of a login that goes to one run at a time
    endpoints: dict[str, str] = Field(default_factory=dict)
    sweep: str = ""  # digest of the sweep file, kept as _ptb/sweeps/<digest>.toml
    sweep_name: str = ""
    max_parallel: int | None = None
    operator: str = ""
    created: str = ""
    bundle: str = ""
    digest: str = ""

    @property
    def method(self) -> str:
        """Method directory."""
        return names.method_name(self.agent, self.config, self.hours, self.gpus, self.experiment)

    @property
    def run(self) -> str:
        """Run directory."""
        return names.run_name(self.benchmark, self.base_model, self.id)

    @property
    def cell(self) -> tuple[str, str, str]:
        """(method, benchmark, base model)."""
        return (self.method, self.benchmark, self.base_model)

    def to_file(self) -> dict[str, Any]:
        """Content of `spec.json`: the fields and, for readers without this grammar, the directory names."""
        return {**self.model_dump(mode="json"), "method": self.method, "run": self.run}

    def content_digest(self) -> str:
        """Digest over what decides the result: not who asked, when, under which id, nor with which bundle."""
        volatile = {"id", "token", "operator", "created", "bundle", "digest", "sweep", "sweep_name", "priority"}
        volatile |= {"max_parallel", "method", "run", "containers", "scratch_gib"}
        volatile |= set() if self.images else {"images"}
        volatile |= set() if self.prompt else {"prompt"}
        volatile |= {"credential", "credential_file", "per_credential", "credential_state"}
        return digest_of(self.model_dump(mode="json", exclude=volatile))

    def sealed(self, **changes: Any) -> Self:
        """A copy with changes and a fresh digest."""
        copy = self.model_copy(update=changes)
        return copy.model_copy(update={"digest": copy.content_digest()})


def digest_of(value: object) -> str:
    """sha256 over canonical JSON, as hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Problem(_File):
    """One thing that stands in the way of a cell, with its remedy."""

    words: str
    remedy: str = ""
    blocks: bool = True


class PlanCell(_File):
    """One cell of a plan and what would happen to it."""

    spec: RunSpec
    action: Literal["submit", "exists", "running", "blocked"]
    run_id: int | None = None
    why: str = ""
    problems: tuple[Problem, ...] = ()


class Plan(_File):
    """What a sweep would do at a site, before anything is done."""

    sweep: Sweep
    cells: tuple[PlanCell, ...]
    problems: tuple[Problem, ...] = ()
    sandbox: str = ""

    @property
    def to_submit(self) -> tuple[PlanCell, ...]:
        """Cells that would be submitted."""
        return tuple(cell for cell in self.cells if cell.action == "submit")

    @property
    def gpu_hours(self) -> float:
        """GPU hours of what would be submitted, at most."""
        return sum(cell.spec.hours * cell.spec.gpus for cell in self.to_submit)


_SECTIONS: dict[str, type[BaseModel]] = {"agents": SweepAgent, "judging": Judging, "limits": Limits, "exclude": Cell}


def read_sweep(path: Path) -> Sweep:
    """Read a sweep file. ConfigError names file, place and what would be right."""
    import tomllib

    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", hint="name a sweep file, see sweeps/") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    return parse_sweep(table, str(path))


def parse_sweep(table: object, source: str) -> Sweep:
    """Validate the content of a sweep file. ConfigError names place and what would be right."""
    try:
        return Sweep.model_validate(table)
    except ValidationError as error:
        raise ConfigError(explain(error, source, Sweep, _SECTIONS)) from error
    except PtbError:
        raise
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from error
