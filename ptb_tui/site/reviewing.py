"""People and verdicts at a site: the queue of those to look at, and what is decided about one (E §3.8, case A23)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptb_tui.core.action import Receipt, Review, RunRef
from ptb_tui.core.errors import NotAllowed, StorageError, UsageError
from ptb_tui.core.files import replace
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.review import FlaggedQuery, FlaggedVerdict, FlaggedView
from ptb_tui.core.verdict import JudgeSpec
from ptb_tui.judging.collect import read_bounded
from ptb_tui.judging.deciding import KIND, decided, manual_form
from ptb_tui.judging.history import keep_file
from ptb_tui.judging.reviews import FOLDER, read_reviews, write_review
from ptb_tui.judging.speech import Layer, Speech
from ptb_tui.judging.standing import Standing, fold
from ptb_tui.results import queueing
from ptb_tui.results.overlay import Overlay, place
from ptb_tui.results.records import RunRecord
from ptb_tui.results.verdicts import JudgePolicy, spec_of
from ptb_tui.results.worth import policies_of

if TYPE_CHECKING:
    from ptb_tui.site.local import LocalSite

_TRIES = 20  # at the manual file, while others decide too


@dataclass(frozen=True, slots=True)
class _Case:
    """One decision about to be made."""

    record: RunRecord
    policy: JudgePolicy
    spec: JudgeSpec
    layers: list[Layer]
    files: RunFiles
    verdict: dict[str, bool | str]
    speech: Speech
    before: Standing


def meant(word: str, policies: Sequence[JudgePolicy], specs: Sequence[JudgeSpec]) -> int:
    """Which judge a person means: by folder, by output id, without `_judge`, or by a unique beginning. UsageError."""
    names = [policy.judge for policy in policies]
    for fits in (
        lambda name, spec: word in (name, spec.output_id, name.removesuffix("_judge")),
        lambda name, spec: bool(word) and name.startswith(word),
    ):
        found = [number for number, (name, spec) in enumerate(zip(names, specs, strict=True)) if fits(name, spec)]
        if len(found) == 1:
            return found[0]
    raise UsageError(f"no judge {word!r} of this run", hint=f"its judges: {', '.join(names) or 'none'}")


def _case(site: LocalSite, action: Review) -> _Case:
    record = site.record(action.run)
    overlay = Overlay(site.root)
    files = overlay.writes(record)
    if not action.reason.strip():
        raise UsageError("a decision needs its reason", hint="--reason TEXT; it is shown beside the verdict")
    layers, policies = [Layer.of(layer) for layer in overlay.layers_of(record)], policies_of(record)
    specs = [spec_of(policy.judge, layers) for policy in policies]
    which = meant(action.judge, policies, specs)
    policy, spec = policies[which], specs[which]
    reviews, _ = read_reviews(layer.run / FOLDER for layer in layers)
    speech = Speech.of(layers, policy.judge, spec, reviews)
    before = fold(speech, spec, policy.votes)
    verdict = decided(action.decision, action.field, action.reason.strip(), spec, before.verdict)
    return _Case(record, policy, spec, layers, files, verdict, speech, before)


def _seen(case: _Case) -> Iterator[dict[str, Any]]:
    """What the decision was made on: every file with a verdict, by digest."""
    for source, given in case.speech.files.items():
        data = read_bounded(given.path)[0] or b""
        yield {
            "source": source,
            "file": place(given.path, case.layers[-1].run),
            "sha256": hashlib.sha256(data).hexdigest(),
            "state": given.found.state.value,
            "record": given.entry.number if given.entry is not None else None,
        }


def _said(verdict: dict[str, bool | str] | None, state: str) -> str:
    flags = [name for name, value in (verdict or {}).items() if value is True]
    return f"{state} ({', '.join(flags)})" if flags else state


def _change(case: _Case) -> str:
    before = _said(case.before.verdict, case.before.state.value.replace("_", " "))
    flagged = any(value is True for value in case.verdict.values())
    after = _said(case.verdict, "flagged" if flagged else "clean")
    source = "" if case.before.source in ("none", "inline") else f" by {case.before.source}"
    was = f"{before}{source}"
    return f"{case.policy.judge} of run {case.record.id}: " + (
        f"stays {after}" if before == after else f"was {was}, now {after}"
    )


def rehearse(site: LocalSite, action: Review) -> Receipt:
    """What the decision would do; nothing is written. The errors are those of `review`."""
    case = _case(site, action)
    return Receipt(action="review", words=f"would be: {_change(case)}", runs=(_ref(case.record),))


def _ref(record: RunRecord) -> RunRef:
    return RunRef(id=record.id, method=record.method, run=record.run_name, created=False, words=record.assessment.worth)


def review(site: LocalSite, action: Review) -> Receipt:
    """Write the decision and the manual verdict that the original's readers take. UsageError for a judge or flag that
    is not there, NotAllowed for a run that cannot be decided about, StorageError."""
    case = _case(site, action)
    hashes = [entry.record.evidence_hash for entry in case.speech.history if entry.record.evidence_hash]
    body = {
        "judge": case.policy.judge,
        "output_id": case.spec.output_id,
        "decision": action.decision,
        "field": action.field,
        "verdict": case.verdict,
        "was": {"state": case.before.state.value, "source": case.before.source, "flagged": list(case.before.flagged)},
        "evidence_hash": hashes[-1] if hashes else "",
        "seen": list(_seen(case)),
    }
    operator = action.operator or site.settings.operator
    beside = [layer.run / FOLDER for layer in case.layers]
    made = write_review(case.files.reviews, KIND, operator, action.reason.strip(), body, beside)
    manual = case.files.ptb.parent / f"judgement_{case.spec.output_id}_manual.json"
    try:
        _publish(case, manual)
    except OSError as error:
        raise StorageError(
            f"{manual} cannot be written: {error.strerror}; the decision itself is kept in {made.path}"
        ) from error
    after = site.record(str(case.record.path))
    worth = case.record.assessment.worth, after.assessment.worth
    change = "" if worth[0] == worth[1] else f"; the run was {worth[0].replace('_', ' ')}, now {worth[1]}"
    return Receipt(
        action="review", words=_change(case) + change, runs=(_ref(after),), files=(str(made.path), str(manual))
    )


def _publish(case: _Case, manual: Path) -> None:
    """The manual file says what the newest decision says, also when others decide at the same time. Raises OSError."""
    for _ in range(_TRIES):
        reviews, _ = read_reviews(layer.run / FOLDER for layer in case.layers)
        mine = [found for found in reviews if found.kind == KIND and found.body.get("judge") == case.policy.judge]
        text, there = manual_form(mine[-1], case.spec), read_bounded(manual)[0]
        if there == text.encode():
            return
        if there and there not in {manual_form(found, case.spec).encode() for found in mine}:
            keep_file(case.files, case.policy.judge, case.spec.output_id, manual)
        replace(manual, text)


def flagged(site: LocalSite, query: FlaggedQuery) -> FlaggedView:
    """The queue of verdicts to look at."""
    scan = site.scan()
    known = {verdict for record in scan.runs for verdict in queueing.judges_of(record)}
    unknown = [word for word in query.judges if not any(queueing.names(word, judge) for judge in known)]
    if unknown and known:
        raise NotAllowed(f"no judge {unknown[0]!r} here", hint=f"judges: {', '.join(sorted(n for n, _ in known))}")
    found = queueing.queue(scan.runs, query.judges, everything=query.all)
    return found.model_copy(update={"problems": scan.problems})


__all__ = ["FlaggedVerdict", "flagged", "meant", "rehearse", "review"]
