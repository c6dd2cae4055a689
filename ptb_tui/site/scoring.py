"""Scores at a site: the board, its files, and decisions about which run stands for a cell."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptb_tui.core.action import Collect, Pin, Receipt, RunRef, Undo, Void
from ptb_tui.core.errors import NotAllowed, StorageError, UsageError
from ptb_tui.core.query import ScoresAnswer, ScoresQuery
from ptb_tui.core.scores import Board
from ptb_tui.judging.reviews import FOLDER, write_review
from ptb_tui.results.overlay import Overlay
from ptb_tui.results.store import without_collection

if TYPE_CHECKING:
    from ptb_tui.results.records import RunRecord
    from ptb_tui.site.local import LocalSite

_PROBLEMS = 50  # that a receipt names; the board has them all


def board(
    site: LocalSite,
    protocol: str,
    policy: str,
    methods: tuple[str, ...] = (),
    groups: Mapping[str, tuple[str, ...]] | None = None,
) -> Board:
    """The score table; without a protocol, that of the newest run. NotFound lists the known protocols."""
    from ptb_tui.content import fingerprint
    from ptb_tui.content.protocols import load_protocol
    from ptb_tui.content.references import load_references
    from ptb_tui.results.collect import build_board, rules_of
    from ptb_tui.results.spending import Spending
    from ptb_tui.site.triaging import family_of

    scan = site.scan()
    records = scan.runs
    name = protocol or next((record.protocol for record in records if record.protocol), "1.2")
    rules = rules_of(load_protocol(site.content, name), load_references(site.content, name))
    rules = replace(rules, differs=partial(fingerprint.apart, site.root))
    spending = Spending(site.root, cache(lambda agent: family_of(site.content, agent)))
    found = build_board(records, rules, policy=policy, methods=methods, groups=groups, spending=spending.of)
    spending.save()
    known = set(found.problems)
    problems = [words for words in scan.problems if words not in known]
    return found.model_copy(update={"problems": (*found.problems, *problems)})


def answer(site: LocalSite, query: ScoresQuery) -> ScoresAnswer:
    """The answer to `ScoresQuery`."""
    found = board(site, query.protocol, query.policy, query.methods, query.groups)
    if query.files:
        from ptb_tui.results.report import FILES
        from ptb_tui.results.tables import FOLDER, names_of

        _absolute(query.out, query.report)
        names = names_of(found, f"{query.out}/" if query.out else f"{FOLDER}/")
        report = tuple(f"{query.report}/{name}" for name in FILES) if query.report else ()
        found = found.model_copy(update={"files": (*names, *report)})
    return ScoresAnswer(board=found)


def _absolute(*folders: str) -> None:
    for folder in folders:
        if folder and not os.path.isabs(folder):
            raise NotAllowed(f"{folder}: an absolute folder is needed at a site")


def collect(site: LocalSite, action: Collect) -> Receipt:
    """Write the tables, and the report if one is asked for. StorageError where the results may only be read and
    no other folder is named. When nothing changed since the last time nothing is computed."""
    from ptb_tui.results import fresh

    _absolute(action.out, action.report)
    question = _question(site, action)
    if not action.report and (known := fresh.recall(site.root, fresh.digest(question, fresh.states(site.stores)))):
        words = f"nothing changed: the {len(known['files'])} files in {action.out or '_aggregated'} are up to date"
        return Receipt.model_validate({**known, "words": words, "files": ()})
    with without_collection():
        return _collect(site, action, question)


def _collect(site: LocalSite, action: Collect, question: dict[str, Any]) -> Receipt:
    from ptb_tui.results import fresh
    from ptb_tui.results.report import write_report
    from ptb_tui.results.tables import write_board

    found = board(site, action.protocol, action.policy, groups=action.groups)
    cells = dict(Counter(cell.worth.value for row in found.methods for cell in row.cells))
    readable = site.root.path.is_dir() and not os.access(site.root.path, os.W_OK)
    if readable and not action.out and not action.report:
        raise StorageError(
            f"{site.root.path} may only be read, so there is no place for the tables",
            hint="name one with --out DIR; `ptb-tui scores` shows the table",
        )
    if action.out or not readable:
        found = write_board(site.root.path, found, Path(action.out) if action.out else None, parquet=action.parquet)
    written = found.files + (write_report(Path(action.report), found) if action.report else ())
    scored = sum(row.score is not None for row in found.methods)
    words = f"wrote {len(written)} files: {len(found.methods)} methods, {scored} of them with a score"
    more = len(found.problems) - _PROBLEMS
    rest = (f"and {more} more: board.json has them all",) if more > 0 else ()
    problems = (*found.problems[:_PROBLEMS], *rest)
    receipt = Receipt(action="collect", words=words, files=written, problems=problems, cells=cells)
    if not action.report:
        key = fresh.digest(question, [store.scanned for store in site.stores])
        paths = [site.root.path / name for name in written]
        fresh.remember(site.root, key, receipt.model_dump(mode="json"), paths)
    return receipt


def _question(site: LocalSite, action: Collect) -> dict[str, Any]:
    """All that decides what is written but for the runs: what is asked, and the protocols as they are."""
    kinds = ("tasks/protocols", "tasks/references")
    files = sorted(path for base in site.content.paths for kind in kinds for path in (base / kind).glob("*.toml"))
    stamps = [[str(path), info.st_mtime_ns, info.st_size] for path in files for info in (path.stat(),)]
    return {"asked": action.model_dump(mode="json", exclude={"operator"}), "files": stamps}


def _decided(record: RunRecord, action: str, words: str) -> Receipt:
    ref = RunRef(id=record.id, method=record.method, run=record.run_name, words=words)
    return Receipt(action=action, words="", runs=(ref,))


def decide(site: LocalSite, action: Pin | Void | Undo) -> Receipt:
    """Write a decision about a run. NotAllowed for a run without a directory, and for an undo of nothing."""
    record = site.record(action.run)
    facts, operator = record.values, action.operator or site.settings.operator
    overlay = Overlay(site.root)
    files, beside = overlay.writes(record), [layer / FOLDER for layer in overlay.layers_of(record)]
    if isinstance(action, Void) and not action.reason.strip():
        raise UsageError("a void needs its reason", hint="--reason TEXT; it is shown wherever the run is")
    if isinstance(action, Pin) and facts.get("void"):
        raise NotAllowed(f"run {record.id} is void ({facts['void']})", hint=f"ptb-tui undo {record.id}")
    if isinstance(action, Undo):
        held = [kind for kind in ("void", "pin") if facts.get(kind) and action.what in ("", kind)]
        if not held:
            what = action.what or "pin and no void"
            raise NotAllowed(f"run {record.id} has no {what} in force", hint=f"ptb-tui show {record.id}")
        body = {"what": action.what} if action.what else {}
        write_review(files.reviews, "undo", operator, action.reason, body, beside)
        return _decided(record, "undo", f"no longer {' and '.join(_DONE[kind] for kind in held)}")
    write_review(files.reviews, action.kind, operator, action.reason, {}, beside)
    return _decided(record, action.kind, _DONE[action.kind])


_DONE = {"void": "void", "pin": "pinned"}
