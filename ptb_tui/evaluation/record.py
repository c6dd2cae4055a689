"""The record of one evaluation: `record.json` in its own folder, `evaluation`, `evaluation_2` … of a run.

It holds what was planned and every attempt that ended, so that a driver that is killed is followed by one that goes on
where it was: an attempt that ended is never made again, one that did not is.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.core.errors import NotAllowed
from ptb_tui.evaluation.final import OPEN, Attempt, AttemptResult, Outcome

NAME = "record.json"
_LIMIT = 64 << 20
_FOLDER = re.compile(r"evaluation(?:_([1-9][0-9]{0,4}))?")
_Key = tuple[int, int, int, int | None, int]


def folders(run_dir: Path) -> list[Path]:
    """The folders of evaluations of a run, oldest first; links are none."""
    found: list[tuple[int, Path]] = []
    try:
        names = os.listdir(run_dir)
    except OSError:
        return []
    for name in names:
        if (match := _FOLDER.fullmatch(name)) and not (run_dir / name).is_symlink() and (run_dir / name).is_dir():
            found.append((int(match[1] or 1), run_dir / name))
    return [path for _, path in sorted(found)]


def new_output(run_dir: Path) -> Path:
    """Create the output folder of a new evaluation: `evaluation`, else `evaluation_2` … Never one that holds anything.

    NotAllowed when a run has too many.
    """
    for number in range(1, 10_000):
        folder = run_dir / ("evaluation" if number == 1 else f"evaluation_{number}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            if not folder.is_symlink() and folder.is_dir() and not os.listdir(folder):
                return folder  # a driver that was killed before it wrote anything
    raise NotAllowed(f"{run_dir} has too many evaluations")


@dataclass(slots=True)
class Record:
    """One evaluation on disk; it is written whole after every change. `plan` is what decides its numbers."""

    folder: Path
    plan: Mapping[str, Any]
    owner: Mapping[str, Any]
    done: dict[_Key, Attempt] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    resumed: int = 0

    def known(self, attempt: Attempt) -> AttemptResult | None:
        """What this very attempt gave when it was made before."""
        found = self.done.get(_key(attempt))
        return found.result if found is not None else None

    def note(self, attempt: Attempt) -> None:
        """Keep an attempt that ended. OSError when it cannot be written."""
        self.done[_key(attempt)] = attempt
        self.write()

    def conclude(self, outcome: Outcome) -> None:
        """Keep how the evaluation ended. OSError when it cannot be written."""
        self.more["ended"] = {
            "t": clock.utc_text(),
            "cause": outcome.cause,
            "why": outcome.why,
            "stage": outcome.stage,
            "seeds_measured": list(outcome.measured),
        }
        self.write()

    def write(self) -> None:
        """Replace the file by what is known now."""
        attempts = []
        for attempt in self.done.values():
            assert attempt.result is not None
            attempts.append({**attempt.to_json(), "ease": attempt.ease, "result": asdict(attempt.result)})
        record = {
            "v": 1,
            "plan": self.plan,
            "owner": self.owner,
            "resumed": self.resumed,
            "attempts": attempts,
            **self.more,
        }
        files.replace(self.folder / NAME, files.dump(record).encode("utf-8", "backslashreplace"))


def _key(attempt: Attempt) -> _Key:
    return attempt.seed, attempt.stage, attempt.n, attempt.max_tokens, attempt.ease


def _attempt(raw: object) -> Attempt | None:
    """An attempt that ended, from the file; None for anything else."""
    try:
        fields: Any = raw
        result = AttemptResult(**fields["result"])
        seed, stage, n, ease = (fields[name] for name in ("seed", "stage", "n", "ease"))
        tokens = fields["max_tokens"]
    except (TypeError, KeyError):
        return None
    if not all(type(value) is int for value in (seed, stage, n, ease)) or type(tokens) not in (int, type(None)):
        return None
    usable = isinstance(result.metrics, dict | None) and isinstance(result.seconds, int | float)
    if not usable or not all(isinstance(word, str) for word in (result.cause, result.words, result.key, result.kind)):
        return None
    return Attempt(seed, stage, n, tokens, result, ease)


def me(step: str) -> dict[str, Any]:
    """This process as the owner of a record, in the words of `core.clock.gone`."""
    return {"step": step, "host": socket.gethostname(), "process": clock.this_process().to_json()}


def unfinished(run_dir: Path, like: Mapping[str, Any]) -> tuple[Path, tuple[int, ...]] | None:
    """The newest evaluation that came to no end and whose plan has these entries: folder and measured seeds."""
    for folder in reversed(folders(run_dir)):
        found = files.read_object(folder / NAME, _LIMIT) or {}
        plan, stopped, raw = found.get("plan"), found.get("ended"), found.get("attempts")
        if not isinstance(plan, dict) or any(plan.get(name) != value for name, value in like.items()):
            continue
        if isinstance(stopped, dict) and stopped.get("cause") not in OPEN:
            continue
        read = [attempt for part in (raw if isinstance(raw, list) else ()) if (attempt := _attempt(part)) is not None]
        return folder, tuple(attempt.seed for attempt in read if attempt.result and attempt.result.metrics is not None)
    return None


def open_record(
    run_dir: Path, plan: Mapping[str, Any], step: str, ended: Callable[[str], bool], *, again: bool = True
) -> Record:
    """The record to work on: that of an evaluation with the same plan which its driver left unfinished, else a new one.

    `step` names the step that asks and `ended(step)` says whether another one has come to its end. An evaluation that
    came to a result is not touched, except by the step that made it; one that stopped for its grader or for the time of
    its step is gone on with, without the attempts that stopped there. `again` false: always a new one.
    """
    plain = json.loads(json.dumps(plan))
    for folder in reversed(folders(run_dir)) if again else ():
        found = files.read_object(folder / NAME, _LIMIT)
        if found is None or found.get("plan") != plain:
            continue
        owner = found.get("owner")
        owner = owner if isinstance(owner, dict) else {}
        mine = owner.get("step") == step
        stopped = found.get("ended")
        over = isinstance(stopped, dict) and stopped.get("cause") not in OPEN
        if (over and not mine) or not (mine or clock.gone(owner) or ended(str(owner.get("step", "")))):
            continue
        raw = found.get("attempts")
        read = [attempt for part in (raw if isinstance(raw, list) else ()) if (attempt := _attempt(part)) is not None]
        kept = {_key(attempt): attempt for attempt in read if attempt.result and attempt.result.cause not in OPEN}
        times = found.get("resumed")
        record = Record(folder, plain, me(step), kept, {}, (times if isinstance(times, int) else 0) + 1)
        record.write()
        return record
    record = Record(new_output(run_dir), plain, me(step))
    record.write()
    return record
