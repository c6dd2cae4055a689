"""Every verdict ever given is kept; the public judgement files are copies of it (E §3.7, §3.8, §4.3; design §5).

`.ptb/verdicts/<judge>/<NNN>.json` only grows. The first verdict with fields becomes `judgement_<id>.json`, which is
never rewritten; a later one becomes `judgement_<id>_rerun.json`, votes 2 and 3 go to `judgement_multi_runs/`. What
stands is read from the public files, so that runs of the original scripts and ours are read alike.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ptb_tui.core.errors import StorageError
from ptb_tui.core.files import create, dump, read_bytes, replace
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.verdict import JudgeSpec, VerdictRecord, VerdictState
from ptb_tui.judging.collect import Collected, read_bounded, read_verdict

_NUMBER = re.compile(r"([0-9]{3,9})\.json")
VOTES = "judgement_multi_runs"


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


def append(files: RunFiles, record: VerdictRecord, *, vote: int = 1) -> Entry:
    """Add a record and bring the public files up to date. StorageError when it cannot be written.

    Safe against any number of writers at once: numbers are taken by exclusive creation.
    """
    number = len(read_history(files, record.judge)) + 1
    try:
        entry = _add(files, record, vote, number)
        publish(files, record.judge, record.output_id)
    except OSError as error:
        raise StorageError(f"a verdict cannot be written below {files.ptb.parent}: {error.strerror}") from error
    return entry


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


def publish(files: RunFiles, judge: str, output_id: str) -> None:
    """Write the public copies that the history asks for; does nothing when they are there. Raises OSError.

    A copy that someone else wrote is never lost: it is taken into the history before a rerun replaces it.
    """
    while True:
        history = read_history(files, judge)
        _publish(files, judge, output_id, history)
        if len(read_history(files, judge)) == len(history):  # else another writer may have been overtaken
            return


def _publish(files: RunFiles, judge: str, output_id: str, history: list[Entry]) -> None:
    run = files.ptb.parent
    usable = [entry for entry in history if entry.record.verdict and entry.record.source == "judge"]
    first_votes = [entry for entry in usable if entry.vote == 1]
    inline = run / f"judgement_{output_id}.json"
    if first_votes and not os.path.lexists(inline):
        create(inline, public_form(first_votes[0]))
    if first_votes and read_bounded(inline)[0] != public_form(first_votes[-1]).encode():
        _replace_rerun(files, judge, run / f"judgement_{output_id}_rerun.json", first_votes[-1])
    for vote in sorted({entry.vote for entry in usable if entry.vote > 1}):
        newest = [entry for entry in usable if entry.vote == vote][-1]
        (run / VOTES).mkdir(exist_ok=True)
        _replace_rerun(files, judge, run / VOTES / f"judgement_{output_id}_run{vote}.json", newest)


def _replace_rerun(files: RunFiles, judge: str, path: Path, entry: Entry) -> None:
    there = read_bounded(path)[0]
    text = public_form(entry)
    if there == text.encode():
        return
    known = {public_form(other).encode() for other in read_history(files, judge)}  # now: another writer may be ahead
    if there and there not in known:
        found = VerdictRecord(
            judge=judge, output_id=entry.record.output_id, state=VerdictState.UNREADABLE, engine="unknown",
            reason=there.decode("utf-8", "replace")[:100_000], source=path.name,
        )  # fmt: skip
        _add(files, found, 1, entry.number + 1)
    replace(path, text)


@dataclass(frozen=True, slots=True)
class Standing:
    """What one judge says about one run now. `source`: manual | majority | rerun | inline | none.

    `changed`: the verdict in force has other flags than the first one. `later` names a newer attempt without verdict,
    which changes nothing but must be seen (J08).
    """

    state: VerdictState
    verdict: dict[str, bool | str] | None = None
    source: str = "none"
    reason: str = ""
    path: Path | None = None
    meta: dict[str, Any] | None = None
    changed: bool = False
    votes: int = 0
    later: str = ""

    @property
    def flagged(self) -> tuple[str, ...]:
        """Names of the flags that are up."""
        return tuple(name for name, value in (self.verdict or {}).items() if value is True)


def standing(files: RunFiles, judge: str, spec: JudgeSpec) -> Standing:
    """The verdict in force: manual > majority of three votes > rerun > inline > none (E §4.3).

    The file that counts decides even when it cannot be read: nothing falls back to another verdict silently.
    """
    run, name = files.ptb.parent, f"judgement_{spec.output_id}"
    found: dict[str, tuple[Path, Collected]] = {}
    for source, path in (
        ("manual", run / f"{name}_manual.json"),
        ("rerun", run / f"{name}_rerun.json"),
        ("inline", run / f"{name}.json"),
        ("vote 2", run / VOTES / f"{name}_run2.json"),
        ("vote 3", run / VOTES / f"{name}_run3.json"),
    ):
        data, _ = read_bounded(path)
        if data is not None:
            found[source] = path, read_verdict(data, spec, foreign=True)
    history = read_history(files, judge)
    source = next((source for source in ("manual", "rerun", "inline") if source in found), "none")
    if source == "none":
        last = history[-1].record if history else None
        if last is None or last.verdict is not None:
            return Standing(VerdictState.MISSING, reason="no verdict")
        return Standing(last.state, reason=last.reason)
    path, chosen = found[source]
    votes = [chosen] + [found[vote][1] for vote in ("vote 2", "vote 3") if vote in found]
    verdict, state, reason, extra = chosen.verdict, chosen.state, chosen.reason, 1
    if source != "manual" and len(votes) == 3:
        source, extra = "majority", 3
        verdict, state, reason = _majority(votes, spec)
    elif source != "manual" and len(votes) < spec.votes:
        reason = reason or f"{len(votes)} of {spec.votes} votes"
    first = found["inline"][1].verdict if "inline" in found else None
    changed = first is not None and verdict is not None and any(first[flag] != verdict[flag] for flag in spec.flags)
    later = ""
    if history and history[-1].record.verdict is None and history[-1].record.source == "judge":
        later = f"{history[-1].record.state.value}: {history[-1].record.reason}"
    return Standing(state, verdict, source, reason, path, chosen.meta, changed, extra, later)


def _majority(votes: list[Collected], spec: JudgeSpec) -> tuple[dict[str, bool | str] | None, VerdictState, str]:
    """Per field, at least two of three; the reasons of the votes that carried it are joined."""
    for number, vote in enumerate(votes, 1):
        if vote.verdict is None:
            return None, vote.state, f"vote {number}: {vote.reason}"
    verdict: dict[str, bool | str] = {}
    tally = []
    for flag in spec.flags:
        read = [vote.verdict for vote in votes if vote.verdict is not None]
        given = [fields[flag] for fields in read]
        verdict[flag] = carried = Counter(given).most_common(1)[0][0] is True
        reasons = [fields.get(f"justification_{flag}") for fields in read if fields[flag] is carried]
        verdict[f"justification_{flag}"] = "\n\n".join(str(reason) for reason in reasons if reason)
        tally.append(f"{flag} {given.count(True)}:{given.count(False)}")
    flagged = any(verdict[flag] is True for flag in spec.flags)
    return verdict, VerdictState.FLAGGED if flagged else VerdictState.CLEAN, ", ".join(tally)
