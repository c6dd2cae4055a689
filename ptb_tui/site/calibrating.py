"""Judges measured on runs with a known truth, as a site answers and does; and what was measured, beside a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ptb_tui.content.calibration import load_cases
from ptb_tui.content.judges import load_judge
from ptb_tui.content.protocols import Protocol
from ptb_tui.core.action import Calibrate, Receipt
from ptb_tui.core.calibration import CalibrationOrder, CalibrationQuery, CalibrationView, Measured
from ptb_tui.core.errors import NotAllowed, PtbError, UsageError
from ptb_tui.core.panel import Seat
from ptb_tui.core.query import RunDetail
from ptb_tui.core.scores import VerdictSummary
from ptb_tui.core.verdict import JudgeSpec
from ptb_tui.judging import calibration, counting
from ptb_tui.judging.calibration import Kept
from ptb_tui.judging.counting import Asked
from ptb_tui.judging.speech import Layer, Speech
from ptb_tui.results.overlay import Overlay
from ptb_tui.run import calibration_plan, judges, place
from ptb_tui.run.baselines import protocol_for
from ptb_tui.run.calibration_plan import words_of
from ptb_tui.site import supplies

if TYPE_CHECKING:
    from ptb_tui.results.records import RunRecord
    from ptb_tui.site.local import LocalSite


def endpoints(site: LocalSite) -> Mapping[str, str]:
    """Where engines find their endpoint here: the site's own word before the operator's."""
    of_site = place.site(site.root).get("endpoints")
    return of_site if isinstance(of_site, dict) else site.config.endpoints


def answer(site: LocalSite, query: CalibrationQuery) -> CalibrationView:
    """What was measured here, and what an order would do. PtbError for an order that names what is not there."""
    plan = None
    if query.order is not None:
        found = calibration_plan.find(site.root, site.content, site.settings, query.order, endpoints(site))
        plan = calibration_plan.plan(site.root, site.settings, found, site.config.sandbox)
    every = calibration.read_all(site.root)
    known = [kept for kept in every if not query.judges or _named(query.judges, kept.subject.judge)]
    if query.judges and every and not known:
        names = sorted({kept.subject.judge for kept in every})
        raise UsageError(f"nothing was measured of {', '.join(query.judges)}", hint=f"measured: {', '.join(names)}")
    rows = [_compared(site, kept) for kept in known]
    rows.sort(key=lambda row: row.ended, reverse=True)
    rows.sort(key=lambda row: row.judge)
    return CalibrationView(
        folder=str(calibration.place(site.root)),
        measured=tuple(rows),
        agreements=counting.agreements(known),
        plan=plan,
    )


def _named(words: Sequence[str], judge: str) -> bool:
    return any(word and judge.startswith(word) for word in words)


def _compared(site: LocalSite, kept: Kept) -> Measured:
    """What was measured, and what of it is different today."""
    measured = counting.measure(kept)
    try:
        today = {case.name: case.digest for case in load_cases(site.content)}
        outdated = tuple(case for case, digest in measured.cases.items() if today.get(case) != digest)
        protocol: Protocol = protocol_for(site.content, "", "")
        judge = load_judge(site.content, kept.subject.judge)
        seat = Seat.model_validate({"engine": kept.subject.engine})
        now = words_of(site.content, protocol, judge, seat) == kept.subject.prompt_hash
        return measured.model_copy(update={"outdated": outdated, "words_now": now})
    except (PtbError, ValueError):  # a judge or an engine that is no longer here
        return measured


def begin(site: LocalSite, action: Calibrate) -> Receipt:
    """Begin to measure. NotAllowed with the first thing that stands in the way."""
    order = action.order
    found = calibration_plan.find(site.root, site.content, site.settings, order, endpoints(site))
    plan = calibration_plan.plan(site.root, site.settings, found, site.config.sandbox)
    blocking = [one for one in plan.problems if one.blocks]
    if blocking:
        more = f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else ""
        raise NotAllowed(blocking[0].words + more, hint=blocking[0].remedy)
    if not plan.ask:
        return Receipt(action="calibrate", words="nothing to ask: all answers are there; --again asks anew")
    request = {
        "root": str(site.root.path),
        "content": [str(path) for path in site.content.paths],
        "order": order.model_dump(mode="json"),
        "sandbox": site.config.sandbox,
        "endpoints": {name: str(url) for name, url in endpoints(site).items() if name == judges.API},
    }
    return supplies.begin(site, "calibration", _subject(order), request)


def _subject(order: CalibrationOrder) -> str:
    """What is measured, in words: the same order again is the same work."""
    parts = [f"calibration of {', '.join(order.judges) or 'the judges'}"]
    named = {"engine": order.engine, "model": order.model, "votes": order.votes, "protocol": order.protocol}
    parts += [f"{name} {value}" for name, value in named.items() if value]
    parts += [f"on {', '.join(order.only)}"] if order.only else []
    return ", ".join([*parts, *(["again"] if order.again else [])])


def beside(site: LocalSite, record: RunRecord, detail: RunDetail) -> RunDetail:
    """The run with what was measured of each judge beside its verdict."""
    if not any(verdict.state != "missing" for verdict in detail.verdicts):
        return detail
    layers = [Layer.of(path) for path in Overlay(site.root).layers_of(record)]
    known = [counting.measure(kept) for kept in calibration.read_all(site.root, _judges(detail.verdicts))]
    verdicts = tuple(
        verdict
        if verdict.state == "missing"
        else verdict.model_copy(
            update={
                "calibration": counting.beside(
                    _asked(layers, verdict), [one for one in known if one.judge == verdict.judge]
                )
            }
        )
        for verdict in detail.verdicts
    )
    return detail.model_copy(update={"verdicts": verdicts})


def _judges(verdicts: Iterable[VerdictSummary]) -> tuple[str, ...]:
    """Names of judges that can be those of folders; the others were written by somebody else."""
    return tuple(verdict.judge for verdict in verdicts if "/" not in verdict.judge and verdict.judge[:1] != ".")


def _asked(layers: Sequence[Layer], verdict: VerdictSummary) -> list[Asked]:
    """Who gave the votes that a verdict is made of, each once, as far as our own history says so."""
    if not verdict.flags:
        return []
    spec = JudgeSpec(label=verdict.judge, output_id=verdict.output_id, order=0, flags=verdict.flags)
    files = Speech.of(layers, verdict.judge, spec).files
    first = "rerun" if "rerun" in files else "inline"
    given = [files[source].entry for source in sorted(files) if source == first or source.startswith("vote ")]
    records = [entry.record for entry in given if entry is not None]
    found = (
        Asked(
            record.engine, record.model or "", record.prompt_hash, str((record.model_extra or {}).get("effort") or "")
        )
        for record in records
    )
    return list(dict.fromkeys(found))
