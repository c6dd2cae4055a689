"""Why a job is held or waits, as data: our words, the next thing to do, and a row of `causes.toml` (cases F05, F09).

The scheduler's own words are kept beside these; an unknown code or word gets `UNKNOWN_HOLD` or nothing.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass

SECOND_START = 77  # subcode of our own hold: the job would have begun a second time

_RELEASE = "`ptb-tui runs release RUN`"
_RETRY = "`ptb-tui runs retry RUN`"


@dataclass(frozen=True, slots=True)
class Why:
    """`cause` is empty where nothing is wrong: somebody asked for it, or the job simply waits for its turn."""

    words: str
    next: str
    cause: str = ""


UNKNOWN_HOLD = Why("held by the scheduler", f"read the reason, then {_RELEASE} or cancel", "unknown")
_FULL = Why("the disk is full", f"free space, then {_RELEASE}", "disk_full")
_QUOTA = Why("the quota is used up", f"free space, then {_RELEASE}", "quota")
_MEMORY = Why("used more memory than asked for", f"ask for more memory, then {_RETRY}", "oom")
_DISK = Why("used more disk than asked for", f"ask for more disk, then {_RETRY}", "disk_full")
_TIME = Why("ran longer than allowed", f"ask for more time, then {_RETRY}", "walltime")
_POLICY = Why("held by a rule of the machine or the pool", f"read the reason, then {_RELEASE} or cancel", "unknown")
_SPOOL = Why("its input is still on the way", "nothing: it goes on by itself")
_TRANSFER = Why("a file could not be transferred", f"look at the paths and the disk, then {_RELEASE}", "unknown")
_FOLDER = Why(
    "a file or folder of the job cannot be opened", f"make it or its rights right, then {_RELEASE}", "unknown"
)
_START = Why("the node could not start the job", f"exclude the node, then {_RELEASE}", "unknown")
_LOGIN = Why("the scheduler could not use the account or a credential", "ask the site's administrators", "credential")

HOLD_CODES: Mapping[int, Why] = {
    1: Why("held by a person", _RELEASE),
    3: Why("held by a rule of the job itself", f"read the reason, then {_RELEASE} or cancel", "unknown"),
    4: _LOGIN,
    5: Why(
        "a rule of the job could not be evaluated", f"look at the extra lines of the site, then {_RETRY}", "unknown"
    ),
    6: _START,
    7: _FOLDER,
    8: _FOLDER,
    9: _FOLDER,
    10: _FOLDER,
    11: _TRANSFER,
    12: _TRANSFER,
    13: _TRANSFER,
    14: _FOLDER,
    15: Why("was submitted on hold", _RELEASE),
    16: _SPOOL,
    18: _TRANSFER,
    19: _START,
    21: _POLICY,
    22: _FOLDER,
    23: _LOGIN,
    26: _POLICY,
    27: _POLICY,
    32: _TRANSFER,
    33: _TRANSFER,
    34: Why("used more than it had asked for", f"ask for more, then {_RETRY}", "unknown"),
    35: Why("the container image cannot be used", "`ptb-tui container status`", "image_missing"),
    45: Why("the container runtime of the node does not work", f"exclude the node, then {_RELEASE}", "sandbox"),
    46: _TIME,
    47: _TIME,
    48: _START,
}

# Exact pairs go before codes. Subcodes of 6 to 14 and 22 are error numbers of the operating system.
HOLD_PAIRS: Mapping[tuple[int, int], Why] = {
    (3, SECOND_START): Why(
        "stopped before a second start: its node was taken away or lost", f"{_RETRY} makes a new run", "preempted"
    ),
    **{(code, 102): _MEMORY for code in (21, 26, 34)},
    **{(code, 104): _DISK for code in (21, 26, 34)},
    **{(code, errno.ENOSPC): _FULL for code in (6, 7, 9, 11, 12, 13, 14, 22)},
    **{(code, errno.EDQUOT): _QUOTA for code in (6, 7, 9, 11, 12, 13, 14, 22)},
}

# Last resort for codes that say little: what sites write into their rules.
_TEXTS: tuple[tuple[re.Pattern[str], Why], ...] = (
    (re.compile(r"no space left on device", re.I), _FULL),
    (re.compile(r"disk quota exceeded", re.I), _QUOTA),
    (re.compile(r"memory usage (?:of \S+ )?exceed|out of memory|over memory limit", re.I), _MEMORY),
    (re.compile(r"disk usage (?:of \S+ )?exceed", re.I), _DISK),
    (re.compile(r"(?:wall ?time|run ?time|duration)\b.{0,40}\b(?:exceed|limit)", re.I), _TIME),
)
_VAGUE = frozenset({3, 12, 13, 21, 26, 34})


def hold_cause(code: int | None, subcode: int | None, text: str = "") -> Why:
    """The row for a hold: by code and subcode, then by the text where the code is vague, then by the code."""
    if code is None:
        return UNKNOWN_HOLD
    if (pair := HOLD_PAIRS.get((code, subcode or 0))) is not None:
        return pair
    if code in _VAGUE:
        for pattern, why in _TEXTS:
            if pattern.search(text[:4096]):
                return why
    return HOLD_CODES.get(code, UNKNOWN_HOLD)


_LIMIT = Why("waits for a limit of the account or the queue", "nothing, or ask for less")
_NEVER = "cancel; put the settings of the site right; submit again"

# Words that Slurm prints as the reason of a job that waits.
SLURM_REASONS: Mapping[str, Why] = {
    "Priority": Why("waits for its turn", "nothing"),
    "Resources": Why("waits for free resources", "nothing"),
    "BeginTime": Why("waits for its time", "nothing"),
    "Dependency": Why("waits for another job", "nothing"),
    "DependencyNeverSatisfied": Why("waits for a job that failed", "cancel it", "unknown"),
    "JobArrayTaskLimit": Why("waits for other tasks of its array", "nothing"),
    "Licenses": Why("waits for a licence", "nothing"),
    "Reservation": Why("waits for its reservation", "nothing"),
    "ReqNodeNotAvail": Why("the nodes it may use are down, drained or reserved", "nothing, or exclude fewer nodes"),
    "NodeDown": Why("the nodes it may use are down", "nothing, or ask the site's administrators"),
    "PartitionDown": Why("the partition is closed", "nothing, or another partition"),
    "PartitionInactive": Why("the partition is closed", "nothing, or another partition"),
    "PartitionTimeLimit": Why("asks for more time than the partition gives", _NEVER, "unknown"),
    "PartitionNodeLimit": Why("asks for more than the partition has", _NEVER, "unknown"),
    "BadConstraints": Why("asks for what no node has", _NEVER, "unknown"),
    "InvalidAccount": Why("the account is not valid here", _NEVER, "unknown"),
    "AccountNotAllowed": Why("the account may not use this partition", _NEVER, "unknown"),
    "QOSNotAllowed": Why("the quality of service may not be used here", _NEVER, "unknown"),
    "InvalidQOS": Why("the quality of service is not valid here", _NEVER, "unknown"),
    "JobHeldUser": Why("held by a person", _RELEASE),
    "JobHeldAdmin": Why("held by an administrator", "ask the site's administrators", "unknown"),
    "JobHoldMaxRequeue": Why("was put back too often", f"{_RETRY} makes a new run", "unknown"),
    "launch failed requeued held": Why("the node could not start the job", f"exclude the node, {_RELEASE}", "unknown"),
}
SLURM_HELD = frozenset({"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "launch failed requeued held"})


def slurm_reason(word: str) -> Why | None:
    """The row for a reason, None for words that need no explanation or are not known."""
    if word in SLURM_REASONS:
        return SLURM_REASONS[word]
    if re.match(r"(?:QOS|Assoc)(?:Grp|Max|\w*Limit)|Max\w*Per", word):
        return _LIMIT
    stem = re.split(r"[,( ]", word, maxsplit=1)[0]  # "ReqNodeNotAvail, UnavailableNodes:gpu01"
    return SLURM_REASONS.get(stem)
