"""Every verdict ever given is kept; the public judgement files are copies of it (E §3.7, §3.8; design §5).

`.ptb/verdicts/<judge>/<NNN>.json` only grows. The first verdict with fields becomes `judgement_<id>.json`, which is
never rewritten; a later one becomes `judgement_<id>_rerun.json`, votes 2 and 3 go to `judgement_multi_runs/`.
`judging.standing` says which verdict is in force.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ptb_tui.core.errors import StorageError
from ptb_tui.core.files import create, dump, read_bytes, replace
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.verdict import VerdictRecord, VerdictState
from ptb_tui.judging.collect import read_bounded

_NUMBER = re.compile(r"([0-9]{3,9})\.json")
VOTES = "judgement_multi_runs"
TEXT_FILES = (  # of version 1.0: file, flag, what it says when the flag is up, and when it is not (E §3.1)
    ("contamination_judgement.txt", "contamination", "contamination detected", "no contamination detected"),
    ("disallowed_model_judgement.txt", "disallowed_model", "disallowed use detected", "only allowed use detected"),
)
TEXT_JUDGE = "gpt5_4"  # output id of the judge that these files speak for


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the history with its number, counted from 1."""

    number: int
    record: VerdictRecord

    @property
    def vote(self) -> int:
        """Which of several votes this is; 1 unless a judge is asked several times."""
        vote = (self.record.model_extra or {}).get("vote", 1)
        return vote if isinstance(vote, int) and vote > 0 else 1


def read_history(files: RunFiles, judge: str) -> list[Entry]:
    """All records of one judge in order; one that cannot be read appears as unreadable, none is left out."""
    folder = files.verdicts / judge
    try:
        names = sorted((int(match[1]), name) for name in os.listdir(folder) if (match := _NUMBER.fullmatch(name)))
    except OSError:
        return []
    return [Entry(number, _record(folder / name, judge)) for number, name in names]


def _record(path: Path, judge: str) -> VerdictRecord:
    try:
        return VerdictRecord.model_validate_json(read_bytes(path) or b"")
    except ValidationError:
        return VerdictRecord(
            judge=judge, output_id="", state=VerdictState.UNREADABLE, reason=f"{path.name} is damaged", engine=""
        )


def append(files: RunFiles, record: VerdictRecord, *, vote: int = 1, under: Path | None = None) -> Entry:
    """Add a record and bring the public files up to date. StorageError when it cannot be written.

    `under`: the run's own directory when `files` lies over it (`results.overlay`); a verdict that is there came first.
    Safe against any number of writers at once: numbers are taken by exclusive creation.
    """
    number = len(read_history(files, record.judge)) + 1
    try:
        entry = _add(files, record, vote, number)
        publish(files, record.judge, record.output_id, under=under)
    except OSError as error:
        raise StorageError(f"a verdict cannot be written below {files.ptb.parent}: {error.strerror}") from error
    return entry


def keep_file(files: RunFiles, judge: str, output_id: str, path: Path) -> None:
    """Take a judgement file that others wrote into the history, before ours takes its name. Raises OSError."""
    text = (read_bounded(path)[0] or b"").decode("utf-8", "replace")
    found = VerdictRecord(
        judge=judge, output_id=output_id, state=VerdictState.UNREADABLE, engine="unknown", reason=text, source=path.name
    )
    _add(files, found, 1, len(read_history(files, judge)) + 1)


def _add(files: RunFiles, record: VerdictRecord, vote: int, number: int) -> Entry:
    folder = files.verdicts / record.judge
    folder.mkdir(parents=True, exist_ok=True)
    record = record.model_copy(update={"vote": vote}) if vote != 1 else record
    data = dump(record.model_dump(mode="json"))
    while not create(folder / f"{number:03d}.json", data):
        number += 1
    return Entry(number, VerdictRecord.model_validate_json(data))


def public_form(entry: Entry) -> str:
    """The text of a public judgement file: the verdict's fields and `_meta` (E §3.4)."""
    record = entry.record
    meta = {
        "judge_model": record.model or record.engine,
        "judge_codex_version": record.engine_version,
        "slot": entry.vote,
        "timestamp": record.ended,
        "engine": record.engine,
        "record": entry.number,
    }
    return json.dumps({**(record.verdict or {}), "_meta": meta}, indent=2, ensure_ascii=False) + "\n"


def publish(files: RunFiles, judge: str, output_id: str, *, under: Path | None = None) -> None:
    """Write the public copies that the history asks for; does nothing when they are there. Raises OSError.

    A copy that someone else wrote is never lost: it is taken into the history before a rerun replaces it.
    """
    while True:
        history = read_history(files, judge)
        _publish(files, judge, output_id, history, under)
        if len(read_history(files, judge)) == len(history):  # else another writer may have been overtaken
            return


def _first_file(run: Path, output_id: str) -> Path | None:
    """The verdict that was there before all later ones, in whatever form; a rerun where that is all there is."""
    names = [f"judgement_{output_id}.json", *(name for name, *_ in TEXT_FILES if output_id == TEXT_JUDGE)]
    names.append(f"judgement_{output_id}_rerun.json")
    return next((run / name for name in names if os.path.lexists(run / name)), None)


def _publish(files: RunFiles, judge: str, output_id: str, history: list[Entry], under: Path | None) -> None:
    run = files.ptb.parent
    usable = [entry for entry in history if entry.record.verdict and entry.record.source == "judge"]
    first_votes = [entry for entry in usable if entry.vote == 1]
    if first_votes:
        inline = _first_file(run, output_id) or (_first_file(under, output_id) if under is not None else None)
        if inline is None:
            inline = run / f"judgement_{output_id}.json"
            create(inline, public_form(first_votes[0]))
        if read_bounded(inline)[0] != public_form(first_votes[-1]).encode():
            _replace(files, judge, run / f"judgement_{output_id}_rerun.json", first_votes[-1])
    for vote in sorted({entry.vote for entry in usable if entry.vote > 1}):
        newest = [entry for entry in usable if entry.vote == vote][-1]
        (run / VOTES).mkdir(exist_ok=True)
        _replace(files, judge, run / VOTES / f"judgement_{output_id}_run{vote}.json", newest)


def _replace(files: RunFiles, judge: str, path: Path, entry: Entry) -> None:
    there, text = read_bounded(path)[0], public_form(entry)
    if there == text.encode():
        return
    known = {public_form(other).encode() for other in read_history(files, judge)}  # now: another writer may be ahead
    if there and there not in known:
        keep_file(files, judge, entry.record.output_id, path)
    replace(path, text)
