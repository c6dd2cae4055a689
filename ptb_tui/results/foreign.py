"""Runs that the original scripts made: facts, no invented states (design §5, H §1.13)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ptb_tui.core import clock, names
from ptb_tui.results.metrics import parse_cli_version
from ptb_tui.results.records import Origin
from ptb_tui.results.regular import head_bytes

_STAMP = re.compile(r"\b(20[0-9]{2}-[01][0-9]-[0-3][0-9])[T ]([0-2][0-9]:[0-5][0-9]:[0-6][0-9])(?:Z|\+00:00| UTC)")
HEAD = 8192  # bytes of a text file that are looked at
HARBOR = b"harbor-managed"  # in the `cli_version.txt` of a run that was exported from there
EXHAUSTED = "final_eval_9.txt"  # the log of the original's last attempt


@dataclass(frozen=True, slots=True)
class Arguments:
    """Line 1 of `output.log`: what the original script was called with (H §1.1)."""

    benchmark: str
    agent: str
    model: str
    cluster: str
    hours: str
    config: str
    gpus: str = "1"


@dataclass(frozen=True, slots=True)
class ForeignFacts:
    """What the files of a run directory without `.ptb` say.

    `files` maps the names in the run directory to (is a folder, bytes, Unix time of last change). `started`: UTC text.
    """

    files: Mapping[str, tuple[bool, int, float]] = field(default_factory=dict)
    arguments: Arguments | None = None
    origin: Origin = "upstream"
    started: str = ""
    last_change: float = 0.0
    cli_version: str = ""
    problem: str = ""

    @property
    def ended(self) -> bool:
        """Whether the agent ended: only then these files exist."""
        return "time_taken.txt" in self.files or "metrics.json" in self.files

    @property
    def harvested(self) -> bool:
        """Whether the copy of the task folder, the last act of the harvest, has begun (H §1.11)."""
        return self.files.get("task", (False,))[0]

    @property
    def has_model(self) -> bool | None:
        """Whether there is a final model; None while that cannot be known."""
        if self.files.get("final_model", (False,))[0]:
            return True
        return False if self.ended and self.harvested else None

    @property
    def exhausted(self) -> bool:
        """Whether the log of the last evaluation attempt is there (E §5.2)."""
        return any(name.endswith(EXHAUSTED) for name in self.files)


def parse_arguments(line: str) -> Arguments | None:
    """Read the argument line; None when it is not one."""
    parts = line.split()
    if len(parts) < 6 or "/" not in parts[2] or not parts[3].isdigit():
        return None
    config, gpus = parts[5:], "1"
    if len(config) > 1 and config[-1].isdigit():
        gpus = config.pop()
    benchmark, agent, model, cluster, hours = parts[:5]
    return Arguments(benchmark, agent, model, cluster, hours, " ".join(config), gpus)


def read_log(head: bytes) -> tuple[Arguments | None, str]:
    """What the beginning of an `output.log` says: the arguments, and when the run began as UTC text, if it does."""
    first, _, rest = head.decode("utf-8", "replace").partition("\n")
    stamp = _STAMP.search(rest.partition("--- SOLVE DIAGNOSTICS")[0])
    return parse_arguments(first), f"{stamp[1]}T{stamp[2]}.000Z" if stamp else ""


def foreign_model(arguments: Arguments | None, parsed: names.RunName) -> str:
    """The hub id: as the original was called, else made from the directory name."""
    if arguments is not None and names.safe(arguments.model) == parsed.model and arguments.model.isprintable():
        return arguments.model
    return parsed.model.replace("_", "/", 1)


def _listing(folder: Path) -> dict[str, tuple[bool, int, float]]:
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            found[entry.name] = (stat.S_ISDIR(info.st_mode), info.st_size, info.st_mtime)
    return found


def read_foreign(folder: Path) -> ForeignFacts:
    """Read a run directory of others; total, read-only, links are not followed."""
    try:
        found = _listing(folder)
    except OSError as error:
        return ForeignFacts(problem=f"cannot be read: {error.strerror}")
    arguments, begun = read_log(head_bytes(folder / "output.log", HEAD) if "output.log" in found else b"")
    times = [changed for is_folder, _, changed in found.values() if not is_folder]
    oldest = utc(min(times)) if times else ""
    version = head_bytes(folder / "cli_version.txt", HEAD) if "cli_version.txt" in found else b""
    return ForeignFacts(
        files=found,
        arguments=arguments,
        origin="harbor" if HARBOR in version else "upstream",
        started=begun or oldest,
        last_change=max(times, default=0.0),
        cli_version=parse_cli_version(version),
    )


def utc(moment: float) -> str:
    """A Unix time as UTC text; empty for one that has none."""
    try:
        return clock.utc_text(moment)
    except (ValueError, OverflowError, OSError):
        return ""


def age(seconds: float) -> str:
    """A duration in one rough word pair: `4 s`, `12 min`, `3 h`, `5 d`."""
    value = max(0.0, seconds)
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if value >= 2 * size:
            return f"{int(value // size)} {unit}"
    return f"{int(value)} s"


def words(facts: ForeignFacts, now: float) -> str:
    """What can be said of a run without a result, never more than the files show."""
    if facts.problem:
        return facts.problem
    if not facts.files:
        return "the run directory is empty"
    last = f"last change {age(now - facts.last_change)} ago"
    if facts.ended:
        return f"the agent ended, no metrics.json; {last}"
    return f"no sign that the agent ended; {last}"
