"""Which votes of a run's judges would be asked for, and of whom (E §4, §3.8)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptb_tui.content.judges import Judge, load_judge, panel
from ptb_tui.content.lookup import Content
from ptb_tui.content.prompt import judge_prompt
from ptb_tui.content.protocols import Protocol
from ptb_tui.core.errors import UsageError
from ptb_tui.core.judging import JudgingLine, Request
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.panel import Seat, in_words, spread
from ptb_tui.core.spec import JudgePlan, Judging, RunSpec
from ptb_tui.core.verdict import EVIDENCE, VerdictState
from ptb_tui.judging.engines.rules import rules_hash
from ptb_tui.judging.history import Entry, read_history
from ptb_tui.judging.prompting import prompt_hash

if TYPE_CHECKING:
    from ptb_tui.results.records import RunRecord

_VERDICTS = (VerdictState.CLEAN, VerdictState.FLAGGED)


@dataclass(frozen=True, slots=True)
class Subject:
    """A run whose judges are asked, and the content that judges. `files` is where verdicts go, `layers` are the
    directories of the run, the strongest first; `aside`: it is not written to itself."""

    record: RunRecord
    files: RunFiles
    spec: RunSpec
    content: Content
    protocol: Protocol
    fresh: bool  # another content than the run's own
    layers: tuple[Path, ...]
    aside: bool = False

    def history(self, judge: str) -> list[Entry]:
        """Every verdict of a judge, the oldest first."""
        return [entry for layer in reversed(self.layers) for entry in read_history(RunFiles(layer / ".ptb"), judge)]


def meant(word: str, known: Mapping[str, str]) -> str:
    """Which judge a person means: by folder, without `_judge`, by output id, or by a unique beginning. `known` are the
    output ids by folder. UsageError."""
    found = [name for name, id_ in known.items() if word in (name, name.removesuffix("_judge"), id_)]
    found = found or [name for name in known if word and name.startswith(word)]
    if len(found) == 1:
        return found[0]
    raise UsageError(f"the run has no judge {word!r}", hint=f"its judges: {', '.join(known) or 'none'}")


def seats_of(
    judge: Judge, plan: JudgePlan, request: Request, url: str, *, fresh: bool
) -> tuple[tuple[Seat, ...], tuple[int, ...]]:
    """(who gives each vote, numbers of the votes that are asked for): as the run was planned, but for what is asked
    otherwise. An engine of the run's panel gives its own votes again; another one gives all of them."""
    model, usual = request.model or None, Seat(engine=plan.engine, votes=len(plan.asked))
    seats = plan.seats
    if fresh or not seats:
        kept = plan.engine if plan.engines == {"rules"} or not fresh else None
        seats = panel(judge.spec, usual, Judging(engine=kept, model=model), url)
    elif model:
        change = {"model": model, "prices": None}
        seats = tuple(seat if seat.engine == "rules" else seat.model_copy(update=change) for seat in seats)
    votes = tuple(n for n, seat in enumerate(seats, 1) if request.engine in (None, seat.engine))
    if not votes:
        seats = panel(judge.spec, usual, Judging(engine=request.engine, model=model), url)
        votes = tuple(range(1, len(seats) + 1))
    if request.votes is not None:
        seats = spread([seats[vote - 1] for vote in votes], request.votes)
        votes = tuple(range(1, len(seats) + 1))
    return seats, votes


def _hash(subject: Subject, judge: Judge, seat: Seat) -> str:
    if seat.engine == "rules":
        return rules_hash(subject.content.paths[0] / "ptb_tui" / "judging" / "engines")
    template = judge_prompt(subject.content, subject.spec, judge.prompt, subject.protocol)
    return prompt_hash(template.read_text("utf-8"), judge.spec, seat.engine)


def _evidence(subject: Subject, plan: JudgePlan, seats: tuple[Seat, ...]) -> str:
    """Why what these seats say is no verdict, or "": what rules say goes before nothing that a model has said."""
    if any(seat.engine != "rules" for seat in seats):
        return ""
    if "rules" not in plan.engines:
        return f"evidence beside what {in_words([plan.asked[0]])} says, not instead of it"
    given = json.loads(subject.record.verdicts_text) if subject.record.foreign else []
    theirs = any(verdict["judge"] == plan.judge and verdict.get("imported") for verdict in given)
    return "evidence beside the verdict that came with the run, not instead of it" if theirs else ""


def _there(history: list[Entry], vote: int, seat: Seat, words: str, source: str) -> bool:
    """Whether the newest verdict of this vote was given by this engine and model, with these words."""
    mine = (entry.record for entry in reversed(history) if entry.vote == vote and entry.record.source == source)
    last = next((record for record in mine if record.state in _VERDICTS), None)
    return (
        last is not None
        and last.engine == seat.engine
        and last.prompt_hash == words
        and (seat.engine == "rules" or last.model == seat.model)
    )


def _under_way(record: RunRecord, judge: str) -> bool:
    return any(step.name.startswith(f"judge:{judge}#") and not step.ended for step in record.steps)


def line_of(subject: Subject, plan: JudgePlan, request: Request, url: str) -> JudgingLine:
    """What would become of one judge of the run. `url` as in `content.judges.panel`."""
    judge = load_judge(subject.content, plan.judge)
    seats, votes = seats_of(judge, plan, request, url, fresh=subject.fresh)
    words = tuple(_hash(subject, judge, seat) for seat in seats)
    why = _evidence(subject, plan, seats)
    evidence = bool(why)
    if request.skip_existing:
        history = subject.history(plan.judge)
        source = EVIDENCE if evidence else "judge"
        votes = tuple(n for n in votes if not _there(history, n, seats[n - 1], words[n - 1], source))
        why = why if votes else "its verdicts are there for these words and models"
        if votes and _under_way(subject.record, plan.judge):
            votes, why = (), "is being asked already"
    return JudgingLine(
        judge=plan.judge,
        action="ask" if votes else "skip",
        votes=votes,
        seats=seats,
        wanted=len(seats),
        prompt_hash=words,
        limit_s=judge.spec.timeout_s,
        evidence=evidence,
        why=why,
    )
