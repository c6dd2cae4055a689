"""Nodes on which one run after the other found no GPU (case A29)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ptb_tui.core import events
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.text import sanitize
from ptb_tui.core.triage import Finding
from ptb_tui.results.records import RunRecord
from ptb_tui.results.regular import head_bytes

ENOUGH = 2  # runs that say the same of a node
_HEAD = 1 << 16


def host_of(record: RunRecord) -> str:
    """Where the agent of one of our runs ran; "" when nobody noted it."""
    if record.ptb is None:
        return ""
    for _, name, folder in RunFiles(record.ptb).step_folders():
        if name.kind == "agent":
            for line in head_bytes(folder / "events.jsonl", _HEAD).split(b"\n"):
                event = events.decode(line)
                if event is not None and event.kind == "claimed":
                    return sanitize(str(event.data.get("host") or ""), limit=80, newlines=False)
    return ""


def bad_nodes(findings: Iterable[Finding], records: Mapping[int, RunRecord]) -> list[Finding]:
    """One entry for each node that `ENOUGH` of the runs with cause gpu share."""
    by_host: dict[str, list[int]] = defaultdict(list)
    for finding in findings:
        record = records.get(finding.run) if finding.run is not None else None
        if finding.cause == "gpu" and record is not None and not record.foreign:
            by_host[host_of(record)].append(record.id)
    return [
        Finding(cost="queue", rule="bad_node", cause="gpu", why=f"{host} gave no GPU to {len(runs)} runs",
                evidence="runs " + ", ".join(map(str, sorted(runs))),
                next=f"exclude {host} before the next submit, and look at it")
        for host, runs in sorted(by_host.items()) if host and len(set(runs)) >= ENOUGH
    ]  # fmt: skip
