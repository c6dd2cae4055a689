"""The verdicts in force of one run, and the decisions of people about it (E §3.7, §4.3; design §5).

Precedence is `judging.standing`'s; here each verdict gets what the protocol makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.core.layout import RunFiles
from ptb_tui.core.scores import ReviewSummary, VerdictSummary
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import EVIDENCE, Effect, Finding, JudgeSpec, VerdictState
from ptb_tui.judging.deciding import KIND
from ptb_tui.judging.history import Entry, read_history
from ptb_tui.judging.reviews import Review, read_reviews
from ptb_tui.judging.speech import Layer, Speech
from ptb_tui.judging.standing import Standing, fold
from ptb_tui.results.overlay import place

_JUDGE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_PLAIN = (VerdictState.MISSING, VerdictState.CLEAN, VerdictState.FLAGGED)
_WORD = re.compile(r"[a-z0-9_]+")
LOOKUP_SINCE = 17400000  # runs of the original scripts with a smaller id had no lookup judge (E §5.3)


@dataclass(frozen=True, slots=True)
class JudgePolicy:
    """One judge as a run or a protocol uses it. A judge with an effect must have spoken before a score counts."""

    judge: str
    effect: Effect = "none"
    required: bool = False
    votes: int = 1
    optional: bool = False  # a flag has its effect, silence has none; what cannot be read is no silence

    @property
    def needed(self) -> bool:
        """Whether the verdict must be there."""
        return not self.optional and (self.required or self.effect != "none")


def _spec(output_id: str, order: int, effect: Effect, *flags: str) -> JudgeSpec:
    return JudgeSpec(label=output_id, output_id=output_id, order=order, effect=effect, flags=flags)


KNOWN: Mapping[str, JudgeSpec] = {
    "data_contamination_judge": _spec("gpt5_4", 1, "baseline", "contamination", "disallowed_model"),
    "api_usage_judge": _spec("api", 2, "baseline", "disallowed_api_usage"),
    "ptb_lookup_judge": _spec("ptb_lookup", 3, "quarantine", "disallowed_ptb_lookup"),
    "general_judge": _spec("general", 4, "none", "general_anomaly"),
}


def original_policies(run_id: int) -> tuple[JudgePolicy, ...]:
    """What the original's collector asks of a run of its own (E §5.3)."""
    optional = run_id < LOOKUP_SINCE
    return (
        JudgePolicy("data_contamination_judge", "baseline", True),
        JudgePolicy("api_usage_judge", "baseline", True),
        JudgePolicy("ptb_lookup_judge", "quarantine", not optional, optional=optional),
        JudgePolicy("general_judge"),
    )


def spec_policies(spec: Mapping[str, Any]) -> tuple[JudgePolicy, ...]:
    """The judges that a run's spec names; entries that are not understood are left out."""
    found = []
    plans = spec.get("judges")
    for plan in plans if isinstance(plans, list) else ():
        if isinstance(plan, dict) and isinstance(plan.get("judge"), str):
            effect = plan.get("effect")
            kept: Effect = effect if effect in ("baseline", "quarantine") else "none"
            votes = plan.get("votes")
            count = votes if isinstance(votes, int) and 1 <= votes <= 9 else 1
            found.append(JudgePolicy(plan["judge"], kept, plan.get("required") is True, count))
    return tuple(found)


def _derived(judge: str, history: list[Entry]) -> JudgeSpec:
    """The schema of a judge we have no folder of, from its own last record."""
    for entry in reversed(history):
        flags = tuple(name for name, value in (entry.record.verdict or {}).items() if isinstance(value, bool))
        if flags and _WORD.fullmatch(entry.record.output_id):
            return JudgeSpec(label=judge, output_id=entry.record.output_id, order=99, flags=flags)
    name = re.sub(r"[^a-z0-9_]", "_", judge.lower()) or "unknown"
    return JudgeSpec(label=judge, output_id=name, order=99, flags=(name,))


def _finding_words(finding: Finding) -> str:
    where = f" ({finding.file}{f':{finding.line}' if finding.line else ''})" if finding.file else ""
    item = f": {finding.item}" if finding.item else ""
    excerpt = f", “{finding.excerpt}”" if finding.excerpt else ""
    return sanitize(f"{finding.words}{where}{item}{excerpt}", limit=300, newlines=False)


def _justification(verdict: Mapping[str, object], flagged: tuple[str, ...]) -> str:
    names = flagged or tuple(name for name, value in verdict.items() if isinstance(value, bool))
    parts = [str(verdict.get(f"justification_{name}") or "").strip() for name in names]
    return sanitize(" ".join(dict.fromkeys(part for part in parts if part)), limit=2000, newlines=False)


def _opinions(speech: Speech) -> tuple[bool, ...]:
    """Whether each vote and rerun flagged anything, files first, then what the history has besides."""
    read = {given.path: given.found.verdict for source, given in speech.files.items() if source != "manual"}
    copied = [given.entry for given in speech.files.values() if given.entry is not None]
    said = [verdict for verdict in read.values() if verdict is not None]
    others = (entry for entry in speech.history if entry not in copied and entry.record.source != EVIDENCE)
    said += [entry.record.verdict for entry in others if entry.record.verdict is not None]
    return tuple(any(value is True for value in verdict.values()) for verdict in said)


def _who(speech: Speech, stands: Standing) -> tuple[str, str]:
    """Engines and models of the verdict in force; of a majority all of them."""
    if stands.source in ("review", "manual"):
        return "a person", ""
    given = [stands.entry.record] if stands.entry is not None else []
    metas: list[Mapping[str, Any]] = [stands.meta or {}]
    if stands.source == "majority":
        files = [file for source, file in sorted(speech.files.items()) if source != "manual"]
        given = [file.entry.record for file in files if file.entry is not None]
        metas = [file.found.meta for file in files if file.entry is None]
    said = [(record.engine, record.model or "") for record in given]
    if not said or stands.source == "majority":
        said += [(str(meta.get("engine") or ""), str(meta.get("judge_model") or "")) for meta in metas]
    engines = dict.fromkeys(engine for engine, _ in said if engine)
    models = dict.fromkeys(model for engine, model in said if model and model != engine)
    return ", ".join(engines), ", ".join(models)


def _review(review: Review | None) -> ReviewSummary | None:
    if review is None:
        return None
    decision, reason = review.text("decision", 20), review.text("reason", 500)
    field, who = review.text("field", 80), review.text("operator", 60)
    return ReviewSummary(decision=decision, field=field, operator=who, when=review.text("t", 40), reason=reason)


def _summary(policy: JudgePolicy, spec: JudgeSpec, speech: Speech, tree: Path) -> VerdictSummary:
    stands = fold(speech, spec, max(policy.votes, 1))
    newest = next((entry.record for entry in reversed(speech.history) if entry.record.verdict), None)
    record = stands.entry.record if stands.entry is not None else None
    engine, model = _who(speech, stands)
    reason = sanitize(stands.reason, limit=500, newlines=False)
    costs = [entry.record.cost_usd for entry in speech.history if entry.record.cost_usd is not None]
    return VerdictSummary(
        judge=policy.judge,
        output_id=spec.output_id,
        state=stands.state,
        flagged=stands.flagged,
        flags=spec.flags,
        justification=_justification(stands.verdict, stands.flagged) if stands.verdict else reason,
        engine=sanitize(engine, limit=60, newlines=False),
        model=sanitize(model, limit=120, newlines=False),
        source=stands.source,
        effect=policy.effect,
        required=policy.needed or (policy.optional and stands.state not in _PLAIN),
        evidence=tuple(_finding_words(finding) for finding in (newest.findings if newest else [])[:20]),
        plain=stands.plain,
        imported=stands.imported,
        votes=stands.votes,
        wanted=stands.wanted,
        split=stands.split,
        hint=sanitize(stands.hint, limit=300, newlines=False),
        reason=reason,
        changed=stands.changed,
        later=stands.later,
        extras=stands.extras,
        opinions=_opinions(speech),
        cost_usd=sum(costs) if costs else None,
        prompt_hash=sanitize(record.prompt_hash if record else "", limit=80, newlines=False),
        file=place(stands.path, tree),
        review=_review(stands.review),
    )


def read_verdicts(
    layers: Sequence[Layer],
    policies: Iterable[JudgePolicy],
    specs: Mapping[str, JudgeSpec] = KNOWN,
    reviews: Sequence[Review] = (),
) -> tuple[VerdictSummary, ...]:
    """The verdict in force of each judge. `layers` are the directories of a run, the strongest first, its own last;
    runs of others have the public files only."""
    found = []
    for policy in policies:
        if _JUDGE.fullmatch(policy.judge):
            spec = spec_of(policy.judge, layers, specs)
            found.append(_summary(policy, spec, Speech.of(layers, policy.judge, spec, reviews), layers[-1].run))
    return tuple(found)


def spec_of(judge: str, layers: Sequence[Layer], specs: Mapping[str, JudgeSpec] = KNOWN) -> JudgeSpec:
    """The schema of a judge: its folder's, else what its own records show."""
    known = specs.get(judge) or KNOWN.get(judge)
    if known is not None:
        return known
    return _derived(judge, [entry for layer in layers for entry in read_history(RunFiles(layer.run / ".ptb"), judge)])


def as_upstream(verdicts: Iterable[VerdictSummary]) -> tuple[VerdictSummary, ...]:
    """The same verdicts under the policy `upstream`: a contradiction is shown elsewhere and changes no value."""
    return tuple(
        verdict.model_copy(update={"state": verdict.plain})
        if verdict.state is VerdictState.CONTRADICTORY and verdict.plain is not None
        else verdict
        for verdict in verdicts
    )


def under(verdicts: Iterable[VerdictSummary], policies: Iterable[JudgePolicy]) -> tuple[VerdictSummary, ...]:
    """The same verdicts as another protocol's judges take them; what it asks for and is not there is missing."""
    by_judge = {verdict.judge: verdict for verdict in verdicts}
    found = []
    for policy in policies:
        spec = KNOWN.get(policy.judge)
        known = by_judge.get(policy.judge) or VerdictSummary(
            judge=policy.judge, output_id=spec.output_id if spec else policy.judge, state=VerdictState.MISSING
        )
        found.append(known.model_copy(update={"effect": policy.effect, "required": policy.needed}))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Decision:
    """What people decided about a run, as far as it is in force. `pinned`: when the pin was set, UTC text."""

    void: str = ""
    pin: str = ""
    pinned: str = ""
    verdicts: tuple[Review, ...] = ()
    problems: tuple[str, ...] = ()


def decisions(layers: Iterable[Layer]) -> Decision:
    """Fold the reviews of a run in order (`judging.reviews`), over its directories.

    `void` and `pin` hold until an `undo`, which takes both back or, with `what`, the one it names.
    """
    found, problems = read_reviews(folder for layer in layers if (folder := layer.reviews) is not None)
    void = pin = pinned = ""
    for review in found:
        who = f" ({name})" if (name := review.text("operator", 60)) else ""
        words = f"{review.text('reason') or 'no reason given'}{who}"
        what = review.text("what", 20)
        if review.kind == "void":
            void = words
        elif review.kind == "pin":
            pin, pinned = words, review.text("t", 40) or review.name
        elif review.kind in ("undo", "unvoid"):
            void = void if what == "pin" else ""
            pin, pinned = (pin, pinned) if what == "void" else ("", "")
    return Decision(void, pin, pinned, tuple(review for review in found if review.kind == KIND), tuple(problems))
