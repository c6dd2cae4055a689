"""Which run stands for a cell: named policies, each a function over all runs of that cell (design §5, E §5.2). Pure.

`finished` is the default, and a pin comes before it; `upstream` is the original's rule, which knows no pins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptb_tui.results.records import RunRecord

Chooser = Callable[[Sequence[RunRecord]], RunRecord | None]


def stands(record: RunRecord) -> bool:
    """Whether a run may stand for its cell under `finished`: its agent ended, that counts, and nobody voided it."""
    return record.place == "run" and bool(record.values.get("agent_done")) and not record.values.get("void")


def finished(records: Sequence[RunRecord]) -> RunRecord | None:
    """The newest by start of the agent among those that `stands`: queued, cancelled, lost, void and site-failed runs
    never displace a result."""
    candidates = [record for record in records if stands(record)]
    return max(candidates, key=lambda run: (run.started or run.created, run.id), default=None)


def upstream(records: Sequence[RunRecord]) -> RunRecord | None:
    """The highest id among run directories, whatever it holds, void or not (E §5.2)."""
    return max((record for record in records if record.place == "run"), key=lambda run: run.id, default=None)


def pin(records: Sequence[RunRecord]) -> RunRecord | None:
    """The run with the newest pin in force; a void run stands for nothing, pinned or not."""
    pinned = [record for record in records if record.values.get("pin") and not record.values.get("void")]
    return max(pinned, key=lambda run: (str(run.values.get("pinned") or ""), run.id), default=None)


CHOOSERS: Mapping[str, Chooser] = {"finished": finished, "upstream": upstream, "pin": pin}
POLICIES = ("finished", "upstream")  # what a board may be asked for


def choose(records: Sequence[RunRecord], policy: str = "finished") -> tuple[RunRecord | None, str]:
    """The run that stands for a cell, of all runs of that cell, and the policy that chose it."""
    if policy == "finished" and (chosen := pin(records)) is not None:
        return chosen, "pin"
    chosen = CHOOSERS[policy](records)
    return chosen, policy if chosen is not None else ""
