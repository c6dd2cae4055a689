"""What can be done at a site. The Action class is the registry's key: console key, palette entry, CLI verb, wire
message, confirmation, read-only check, idempotency and audit record are one thing (design §6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.core.baseline import BaselineOrder
from ptb_tui.core.calibration import CalibrationOrder
from ptb_tui.core.evaluating import Measurement
from ptb_tui.core.judging import Request
from ptb_tui.core.review import Decision
from ptb_tui.core.spec import Sweep


class _Action(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    operator: str = ""


class Submit(_Action):
    """Submit the missing cells of a sweep."""

    kind: Literal["submit"] = "submit"
    sweep: Sweep


class Cancel(_Action):
    """Cancel a run: queued ones never start, a running agent is stopped and its harvest follows."""

    kind: Literal["cancel"] = "cancel"
    run: str
    reason: str = ""


class Judge(_Action):
    """Ask the judges of a run again."""

    kind: Literal["judge"] = "judge"
    run: str
    request: Request = Request()


class Evaluate(_Action):
    """Evaluate the run's final model again."""

    kind: Literal["evaluate"] = "evaluate"
    run: str
    measurement: Measurement = Measurement()


class Retry(_Action):
    """A new run of the same cell."""

    kind: Literal["retry"] = "retry"
    run: str
    reason: str = ""


class Collect(_Action):
    """Compute the score tables and write them to `out`, by default `<results>/_aggregated`; with `report`, a report to
    that folder too. `groups` are rows of the leaderboard: name → methods."""

    kind: Literal["collect"] = "collect"
    protocol: str = ""
    policy: Literal["finished", "upstream"] = "finished"
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    out: str = ""
    report: str = ""
    parquet: bool = False  # the table of cells as Parquet too


class Pin(_Action):
    """Let a run stand for its cell, whatever the policy `finished` would choose."""

    kind: Literal["pin"] = "pin"
    run: str
    reason: str = ""


class Void(_Action):
    """Let a run stand for nothing; it stays where it is."""

    kind: Literal["void"] = "void"
    run: str
    reason: str


class Undo(_Action):
    """Take the pin of a run back, its void, or whatever of both is in force. The records stay."""

    kind: Literal["undo"] = "undo"
    run: str
    what: Literal["", "pin", "void"] = ""
    reason: str = ""


class Dispatch(_Action):
    """Look after the queue now: adopt, reconcile, start what can start."""

    kind: Literal["dispatch"] = "dispatch"


class BuildImage(_Action):
    """Build a container image, from its recipe or from a root folder of the site; goes on by itself as work."""

    kind: Literal["build_image"] = "build_image"
    name: str
    root: str = ""


class Baseline(_Action):
    """Measure a model as it is, with the final evaluation and no agent; goes on by itself as work."""

    kind: Literal["baseline"] = "baseline"
    order: BaselineOrder


class Calibrate(_Action):
    """Ask judges about runs with a known truth, to know how well they judge; goes on by itself as work."""

    kind: Literal["calibrate"] = "calibrate"
    order: CalibrationOrder = CalibrationOrder()


class CacheHub(_Action):
    """Fetch models and data sets into the cache of the hub; goes on by itself as work. `only`: an id or a pattern."""

    kind: Literal["cache_hub"] = "cache_hub"
    only: str = ""
    refresh: bool = False


class FetchData(_Action):
    """Fetch the items of tasks into the site's data store, of all tasks without names; goes on by itself as work.
    `given` is a folder of the site whose files are taken instead of the network's."""

    kind: Literal["fetch_data"] = "fetch_data"
    tasks: tuple[str, ...] = ()
    refresh: bool = False
    given: str = ""


class AgentUpdate(_Action):
    """Get a version of an agent's CLI, the newest when `version` is empty, and make it current; goes on as work.
    With `keep` the store gets the version, and what is current stays so."""

    kind: Literal["agent_update"] = "agent_update"
    name: str
    version: str = ""
    keep: bool = False


class AgentPin(_Action):
    """Pin the CLI, or one agent, to a version of the store; an empty version takes the pin away."""

    kind: Literal["agent_pin"] = "agent_pin"
    name: str
    version: str = ""


class AgentRollback(_Action):
    """Make the version of a CLI current that was current before."""

    kind: Literal["agent_rollback"] = "agent_rollback"
    name: str


class CredentialRelease(_Action):
    """Give a login free that a run is said to have: for runs whose machine or results are gone."""

    kind: Literal["credential_release"] = "credential_release"
    name: str


class CredentialRestore(_Action):
    """Put the file back that was a login's before the last one; doing it again undoes it."""

    kind: Literal["credential_restore"] = "credential_restore"
    name: str


class Export(_Action):
    """Write sanitised copies of runs to a folder of the site: those named, else the newest of each cell, or all."""

    kind: Literal["export"] = "export"
    runs: tuple[str, ...] = ()
    out: str = ""  # empty: `_ptb/export` below the results root
    all: bool = False
    force: bool = False


class Review(_Action):
    """Decide about a judge's verdict. The newest decision counts, so that a later one takes it back. With `field` only
    that flag is decided; with `dry_run` nothing is written."""

    kind: Literal["review"] = "review"
    run: str
    judge: str
    decision: Decision
    reason: str = Field(min_length=1, max_length=4000)
    field: str = ""
    dry_run: bool = False


Action = Annotated[
    Submit
    | Cancel
    | Judge
    | Evaluate
    | Retry
    | Collect
    | Dispatch
    | AgentUpdate
    | AgentPin
    | AgentRollback
    | Baseline
    | BuildImage
    | CacheHub
    | Calibrate
    | CredentialRelease
    | CredentialRestore
    | FetchData
    | Export
    | Pin
    | Void
    | Undo
    | Review,
    Field(discriminator="kind"),
]


@dataclass(frozen=True, slots=True)
class Entry:
    """How an action appears to people. `key` is the console's key, empty for none."""

    action: type[_Action]
    verb: str
    label: str
    key: str = ""
    confirm: str = ""
    writes: bool = True


REGISTRY: dict[type[_Action], Entry] = {
    entry.action: entry
    for entry in (
        Entry(Submit, "--batch", "Sweep: Submit", "n", "Submit {n} runs?"),
        Entry(Cancel, "runs cancel", "Run: Cancel", "x", "Cancel run {run}? Its model so far is kept."),
        Entry(Judge, "judge", "Run: Judge again", "j"),
        Entry(Evaluate, "eval", "Run: Evaluate again", "e"),
        Entry(Retry, "runs retry", "Run: Retry", "r", "Run the whole cell again?"),
        Entry(Collect, "collect", "Scores: Collect", "c"),
        Entry(Pin, "runs pin", "Run: Pin to its cell"),
        Entry(Void, "runs void", "Run: Void", "", "Void run {run}? It will stand for nothing; `undo` takes it back."),
        Entry(Undo, "runs undo", "Run: Undo its pin or void"),
        Entry(Dispatch, "runs queue --kick", "Queue: Look now"),
        Entry(Export, "export", "Runs: Export sanitised copies"),
        Entry(AgentUpdate, "agents update", "Agent: Update its CLI", "U"),
        Entry(AgentPin, "agents pin", "Agent: Pin its CLI"),
        Entry(AgentRollback, "agents rollback", "Agent: Roll its CLI back"),
        Entry(Baseline, "baseline", "Baseline: Measure a model as it is"),
        Entry(BuildImage, "container build", "Image: Build"),
        Entry(Calibrate, "judge calibrate", "Judges: Measure them"),
        Entry(
            CredentialRelease,
            "credentials release",
            "Login: Give it free",
            "",
            "Give the login free? A run that still has it can no longer bring it back.",
        ),
        Entry(
            CredentialRestore,
            "credentials restore",
            "Login: Restore the file before",
            "",
            "Put the file before back? The one that is there now is kept in its stead.",
        ),
        Entry(Review, "review", "Verdict: Decide", "v"),
        Entry(FetchData, "data fetch", "Data: Fetch the tasks' items"),
        Entry(CacheHub, "data cache", "Data: Cache the hub", "", "Fetch what is missing? --dry-run tells how much."),
    )
}


class RunRef(BaseModel):
    """One run that an action concerned."""

    model_config = ConfigDict(frozen=True)
    id: int
    method: str = ""
    run: str = ""
    created: bool = True
    words: str = ""


class Receipt(BaseModel):
    """What an action did. The same token gives the same receipt."""

    model_config = ConfigDict(frozen=True)
    action: str
    token: str = ""
    words: str = ""
    runs: tuple[RunRef, ...] = ()
    files: tuple[str, ...] = ()
    problems: tuple[str, ...] = Field(default=())
    cells: dict[str, int] = Field(default_factory=dict)  # of a score table: worth → cells
    work: int | None = None  # what goes on at the site, for `WorkQuery`
