"""What can be done at a site. The Action class is the registry's key: console key, palette entry, CLI verb, wire
message, confirmation, read-only check, idempotency and audit record are one thing (design §6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.core.spec import EngineName, Sweep


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
    """Ask judges again; empty means all judges of the run's protocol."""

    kind: Literal["judge"] = "judge"
    run: str
    judges: tuple[str, ...] = ()
    engine: EngineName | None = None


class Evaluate(_Action):
    """Evaluate the run's final model again."""

    kind: Literal["evaluate"] = "evaluate"
    run: str


class Retry(_Action):
    """A new run of the same cell."""

    kind: Literal["retry"] = "retry"
    run: str
    reason: str = ""


class Collect(_Action):
    """Compute the score tables and write them to `<results>/_aggregated`."""

    kind: Literal["collect"] = "collect"
    protocol: str = ""
    policy: Literal["finished", "upstream"] = "finished"


class Dispatch(_Action):
    """Look after the queue now: adopt, reconcile, start what can start."""

    kind: Literal["dispatch"] = "dispatch"


Action = Annotated[Submit | Cancel | Judge | Evaluate | Retry | Collect | Dispatch, Field(discriminator="kind")]


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
        Entry(Dispatch, "runs queue --kick", "Queue: Look now"),
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
