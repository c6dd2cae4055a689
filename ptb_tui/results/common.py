"""The common runs of others in a root (`quick`); where many are new, half of them are read in a second process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import from_json, to_json

from ptb_tui.core.names import RunName
from ptb_tui.results import aside
from ptb_tui.results.index import Stamp, pack, unpack
from ptb_tui.results.records import Place, RunRecord

if TYPE_CHECKING:
    from ptb_tui.core.verdict import JudgeSpec

MANY = 1000  # new runs for which a second process is worth it: it takes as long as a hundred runs
Read = tuple[RunRecord, Sequence[Stamp]]


class Found(NamedTuple):
    """One folder that is a run, before it is read."""

    relative: str
    method: str
    name: str
    place: Place
    parsed: RunName | None = None  # of a run directory


class Common:
    """Reads the common runs over which nothing lies, one after the other. `agent` names that of a method."""

    def __init__(self, root: Path, agent: Callable[[str], str], judges: Mapping[str, JudgeSpec] | None) -> None:
        self._root = root
        self._agent = agent
        self._possible = judges is None  # others than those of the original are for `reading`
        self._ahead: dict[str, Read | None] = {}  # None: for `reading`
        self._wait: Callable[[], bytes] | None = None
        self._half: Sequence[Found] = ()  # what the second process reads

    def begin(self, new: Sequence[Found]) -> None:
        """Before these runs are read in this order."""
        self._ahead, self._wait = {}, None
        if self._possible and len(new) >= MANY and aside.possible():
            half = new[len(new) // 2 :]
            with contextlib.suppress(OSError):  # then this process reads all
                self._wait, self._half = aside.aside(lambda: self._packed(half)), half

    def read(self, item: Found) -> Read | None:
        """The record and what it was read from; None for a run that is not the common one."""
        if self._wait is not None and item.relative == self._half[0].relative:
            data, self._wait = self._wait(), None
            self._ahead = self._unpacked(data)
        return self._ahead.pop(item.relative) if item.relative in self._ahead else self._read(item)

    def _read(self, item: Found) -> Read | None:
        if not self._possible or item.parsed is None:
            return None
        from ptb_tui.results.quick import read_quick  # what has settled is listed without pydantic

        return read_quick(self._root, item.relative, item.method, item.name, item.parsed, self._agent(item.method))

    def _packed(self, items: Sequence[Found]) -> bytes:
        read = [found for item in items if (found := self._read(item)) is not None]
        usual = read[0][0].values if read else {}
        return to_json([usual, [(found, pack(record, usual)) for record, found in read]])

    def _unpacked(self, data: bytes) -> dict[str, Read | None]:
        if not data:  # the other process failed
            return {}
        known: dict[str, Read | None] = {item.relative: None for item in self._half}
        usual, read = from_json(data)
        for found, kept in read:
            record = unpack(self._root, kept, usual)
            known[record.relative] = record, found
        return known
