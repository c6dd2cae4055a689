"""Fingerprints that another one has replaced: they keep a row of their own (design §4). Pure.

A method's row takes one run for each cell, whatever content it was made with, and is marked where that mixes
fingerprints. Where runs of two fingerprints stand for the same cell, the one that is not taken would be seen nowhere;
so each such fingerprint gets a row from its runs alone, called `METHOD@FINGERPRINT`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptb_tui.core.scores import CellScore
from ptb_tui.results.cells import same_model, stands
from ptb_tui.results.records import RunRecord

LETTERS = 8  # of a fingerprint in the name of a row


def earlier(
    records: Sequence[RunRecord], cells: Sequence[CellScore], protocol: str
) -> list[tuple[str, list[RunRecord]]]:
    """The fingerprints that lost a cell of this row, with all runs of each, the newest first."""
    ours = [record for record in records if not record.foreign and record.protocol == protocol and record.fingerprint]
    lost: dict[str, int] = {}
    for record in ours:
        for cell in cells:
            same = cell.benchmark == record.benchmark and same_model(record.model, cell.model)
            if same and cell.fingerprint and cell.fingerprint != record.fingerprint and stands(record):
                lost[record.fingerprint] = max(record.id, lost.get(record.fingerprint, 0))
    newest_first = sorted(lost, key=lambda name: -lost[name])
    return [(name, [record for record in ours if record.fingerprint == name]) for name in newest_first]
