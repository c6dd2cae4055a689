"""Tables of Slurm: rows under a header, columns by name, and the words for states (squeue, sacct --parsable2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from backends.parse.answer import ParseError, Phase, one_line

# One row a state: phase and cause. Words of sacct may be cut, with a `+` at the cut.
STATES: Mapping[str, tuple[Phase, str]] = {
    "PENDING": (Phase.QUEUED, ""),
    "REQUEUED": (Phase.QUEUED, ""),
    "REQUEUE_FED": (Phase.QUEUED, ""),
    "REQUEUE_HOLD": (Phase.HELD, "unknown"),
    "RESV_DEL_HOLD": (Phase.HELD, "unknown"),
    "SPECIAL_EXIT": (Phase.HELD, "unknown"),
    "CONFIGURING": (Phase.STARTING, ""),
    "POWER_UP_NODE": (Phase.STARTING, ""),
    "RUNNING": (Phase.RUNNING, ""),
    "RESIZING": (Phase.RUNNING, ""),
    "SIGNALING": (Phase.RUNNING, ""),
    "SUSPENDED": (Phase.SUSPENDED, ""),
    "STOPPED": (Phase.SUSPENDED, ""),
    "COMPLETING": (Phase.ENDING, ""),
    "STAGE_OUT": (Phase.ENDING, ""),
    "COMPLETED": (Phase.ENDED, ""),
    "FAILED": (Phase.ENDED, "unknown"),
    "CANCELLED": (Phase.ENDED, "operator"),
    "REVOKED": (Phase.ENDED, "unknown"),
    "TIMEOUT": (Phase.ENDED, "walltime"),
    "DEADLINE": (Phase.ENDED, "walltime"),
    "OUT_OF_MEMORY": (Phase.ENDED, "oom"),
    "PREEMPTED": (Phase.ENDED, "preempted"),
    "NODE_FAIL": (Phase.ENDED, "host_lost"),
    "BOOT_FAIL": (Phase.ENDED, "host_lost"),
    "LAUNCH_FAILED": (Phase.ENDED, "prepare_failed"),
    "RECONFIG_FAIL": (Phase.ENDED, "prepare_failed"),
}


def state_of(word: str) -> tuple[str, str] | None:
    """The state and who cancelled, from a word such as `RUNNING`, `CANCELLED+`, `OUT_OF_ME+`, `CANCELLED by 123`."""
    if cancelled := re.fullmatch(r"CANCELLED by (\S{1,64})", word):
        return "CANCELLED", cancelled[1]
    stem = word.removesuffix("+")
    if stem in STATES:
        return stem, ""
    meant = [name for name in STATES if name.startswith(stem)] if stem != word and len(stem) >= 4 else []
    return (meant[0], "") if len(meant) == 1 else None


@dataclass(frozen=True, slots=True)
class Table:
    """`rows`: handle and columns by upper-case name. Without a header there was no answer."""

    rows: tuple[tuple[str, Mapping[str, str]], ...]
    problems: tuple[ParseError, ...]
    answered: bool


_JOB = re.compile(r"\d[\w.+]{0,64}(?:_\[[^\]|]{0,4096}\])?")
_CLUSTER = re.compile(r"CLUSTER: ([\w.-]{1,64})\s*")


def read_table(text: str) -> Table:
    """What stands before a header is a banner; after it, text that is no row is a problem, as is a row without end."""
    rows: list[tuple[str, Mapping[str, str]]] = []
    problems: list[ParseError] = []
    header: list[str] = []
    cluster = ""
    *lines, rest = text.split("\n")
    for line in lines:
        names = [name.strip().upper() for name in line.split("|")]
        if hit := _CLUSTER.fullmatch(line):
            cluster = f";{hit[1]}"
        elif names[0] in ("JOBID", "JOBIDRAW") and "STATE" in names:
            header = names
        elif header and line.strip():
            values = [value.strip() for value in line.split("|", len(header) - 1)]
            job = values[0] if _JOB.fullmatch(values[0]) else ""
            if job and len(values) == len(header):
                row = dict(zip(header, values, strict=True))
                rows.append((f"{row.get('JOBID') or job}{cluster}", row))
            else:
                problems.append(ParseError(f"{job}{cluster}" if job else "", "not a row", one_line(line[:200])))
    if rest.strip():  # it may end inside its id, so nobody can say whose it was
        problems.append(ParseError("", "cut line", one_line(rest[:200])))
    return Table(tuple(rows), tuple(problems), bool(header))
