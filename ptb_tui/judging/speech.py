"""All that speaks for one judge about one run: public judgement files, our history, reviews. Reads, decides nothing.

A run may have several layers (`results.overlay`): the strongest that has a file wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptb_tui.core.layout import RunFiles
from ptb_tui.core.verdict import JudgeSpec
from ptb_tui.judging.collect import Collected, Outcome, read_bounded, read_verdict
from ptb_tui.judging.deciding import KIND
from ptb_tui.judging.history import TEXT_FILES, TEXT_JUDGE, VOTES, Entry, public_form, read_history
from ptb_tui.judging.reviews import FOLDER, Review

_VOTE = re.compile(r"judgement_([a-z0-9_]+)_run([2-9])\.json")
OLD_FORM = "the text files of version 1.0"  # how such a verdict was read


@dataclass(frozen=True, slots=True)
class Layer:
    """One directory with judgement files, listed once for all judges; an absent one is empty."""

    run: Path
    names: frozenset[str]
    votes: frozenset[str] = frozenset()
    judges: frozenset[str] = frozenset()

    @classmethod
    def of(cls, run: Path) -> Layer:
        """List a run's directory, or the folder that lies over it."""
        names, base = _listed(run), str(run)
        votes = _listed(f"{base}/{VOTES}") if VOTES in names else frozenset()
        return cls(run, names, votes, _listed(f"{base}/.ptb/verdicts") if ".ptb" in names else frozenset())

    @property
    def reviews(self) -> Path | None:
        """The folder of decisions, if there can be one."""
        return self.run / FOLDER if ".ptb" in self.names else None


def _listed(folder: Path | str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


@dataclass(frozen=True, slots=True)
class Given:
    """One public judgement file. `entry` is the record that it is a copy of; None for a file that others wrote."""

    path: str
    found: Collected
    entry: Entry | None = None


@dataclass(frozen=True, slots=True)
class Speech:
    """All that speaks for one judge about one run. Keys of `files`: manual, rerun, inline, vote 2, vote 3 …"""

    files: Mapping[str, Given] = field(default_factory=dict)
    history: Sequence[Entry] = ()
    reviews: Sequence[Review] = ()

    @classmethod
    def of(cls, layers: Sequence[Layer], judge: str, spec: JudgeSpec, reviews: Iterable[Review] = ()) -> Speech:
        """Read it from a run's layers, the strongest first."""
        entries: list[Entry] = []
        for layer in reversed(layers):
            if judge in layer.judges:
                entries += read_history(RunFiles(layer.run / ".ptb"), judge)
        name = f"judgement_{spec.output_id}"
        wanted = {"manual": f"{name}_manual.json", "rerun": f"{name}_rerun.json", "inline": f"{name}.json"}
        files: dict[str, Given] = {}
        for layer in layers:
            base = str(layer.run)
            here = {source: f"{base}/{file}" for source, file in wanted.items() if file in layer.names}
            for file in layer.votes:
                if (match := _VOTE.fullmatch(file)) and match[1] == spec.output_id:
                    here[f"vote {match[2]}"] = f"{base}/{VOTES}/{file}"
            for source, path in here.items():
                if source not in files and (given := _read(path, spec, entries)) is not None:
                    files[source] = given
            if "inline" not in files and spec.output_id == TEXT_JUDGE and (old := _texts(layer, spec)) is not None:
                files["inline"] = old
        mine = [review for review in reviews if review.kind == KIND and review.body.get("judge") == judge]
        return cls(files, entries, mine)


def _read(path: str, spec: JudgeSpec, entries: Sequence[Entry]) -> Given | None:
    data, _ = read_bounded(path)
    if data is None:
        return None
    found = read_verdict(data, spec, foreign=True)
    number = found.meta.get("record")
    same = (entry for entry in entries if entry.number == number and public_form(entry).encode() == data)
    return Given(path, found, next(same, None))


def _texts(layer: Layer, spec: JudgeSpec) -> Given | None:
    """The two text files of version 1.0; None when neither is there, or the judge has other flags."""
    present = [row for row in TEXT_FILES if row[0] in layer.names]
    if not present or set(spec.flags) != {row[1] for row in TEXT_FILES}:
        return None
    verdict: dict[str, bool | str] = {}
    for file, flag, up, down in TEXT_FILES:
        data, _ = read_bounded(layer.run / file)
        said = (data or b"").decode("utf-8", "replace").strip().lower()
        if said not in (up, down):
            words = f"{file} is missing" if data is None else f"{file} says neither {up!r} nor {down!r}"
            outcome = Outcome.MISSING if data is None else Outcome.UNREADABLE
            return Given(f"{layer.run}/{file}", Collected(outcome, reason=words))
        verdict[flag] = said == up
    return Given(f"{layer.run}/{present[0][0]}", Collected(Outcome.VALID, verdict, how=OLD_FORM))
