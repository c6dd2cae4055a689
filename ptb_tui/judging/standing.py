"""Which verdict of a judge is in force for a run, and what else a person must see (E §3.8, §4.3; design §5).

Newest review > manual file > majority of all votes > rerun > inline > none. The one that counts decides even when it
cannot be read: nothing falls back to another verdict silently. Pure, but for `standing`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.core.panel import MAX_VOTES
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import EVIDENCE, Finding, JudgeSpec, VerdictState
from ptb_tui.judging.deciding import verdict_in
from ptb_tui.judging.history import Entry
from ptb_tui.judging.reviews import Review
from ptb_tui.judging.speech import OLD_FORM, Given, Layer, Speech
from ptb_tui.judging.wording import at_odds

# What rules prove, by the first word of a finding's rule: no verdict that denies it is taken without a person.
PROOFS: Mapping[str, str] = {
    "contamination": "contamination",  # the checker, at its strict threshold
    "model": "disallowed_model",  # the identity check
    "api": "disallowed_api_usage",  # a call that was executed
}
_THEIR_VOTES = 3  # of the original, whenever it asks more than once (E §3.8)


@dataclass(slots=True)
class Standing:
    """What one judge says about one run now.

    `source`: review | manual | majority | rerun | inline | none. `plain` is the state under the policy `upstream`,
    which does not compare a verdict with the rules or with votes that are not complete. `imported`: others wrote the
    file. `split`: how the votes differ. `hint`: why a person should read it. `changed`: the verdict in force is not
    the first one. `later`: a newer attempt without verdict, which changes nothing but must be seen (J08).
    """

    state: VerdictState
    verdict: dict[str, bool | str] | None = None
    source: str = "none"
    reason: str = ""
    path: str = ""
    meta: Mapping[str, Any] | None = None
    changed: str = ""
    votes: int = 0
    wanted: int = 1
    later: str = ""
    plain: VerdictState = VerdictState.MISSING
    imported: bool = False
    split: str = ""
    hint: str = ""
    entry: Entry | None = None
    review: Review | None = None
    extras: tuple[str, ...] = ()

    @property
    def flagged(self) -> tuple[str, ...]:
        """Names of the flags that are up."""
        return tuple(name for name, value in (self.verdict or {}).items() if value is True)


def proofs(history: Sequence[Entry]) -> dict[str, Finding]:
    """What the rules proved the last time they were asked: flag → the first finding that decides it."""
    for entry in reversed(history):
        rules = (entry.record.model_extra or {}).get("run_rules")
        asked = isinstance(rules, dict) and rules.get("verdict") is not None
        if asked or (entry.record.engine == "rules" and entry.record.verdict is not None):
            found: dict[str, Finding] = {}
            for finding in entry.record.findings:
                flag = PROOFS.get(finding.rule.partition(".")[0])
                if flag is not None and finding.weight == "flag":
                    found.setdefault(flag, finding)
            return found
    return {}


def fold(speech: Speech, spec: JudgeSpec, votes: int = 1) -> Standing:
    """The verdict in force. `votes`: how many were asked for."""
    judged = _of_judges(speech, spec, votes)
    first = _first(speech)
    stands = judged
    if (manual := speech.files.get("manual")) is not None:
        stands = _of_file(manual, "manual")
    if speech.reviews:
        stands = _of_review(speech.reviews[-1], spec, manual)
    last = next((entry.record for entry in reversed(_judged(speech))), None)
    later = ""
    if last is not None and last.verdict is None and last.source == "judge" and stands.verdict is not None:
        later = sanitize(f"{last.state.value}: {last.reason}", limit=300, newlines=False)
    changed = ""
    if first is not None and stands.verdict is not None and _ups(first, spec) != _ups(stands.verdict, spec):
        changed = f"was {_said(_ups(first, spec))} first"
    if stands.review is None and stands.verdict is not None:
        stands.hint = _joined(stands.hint, at_odds(stands.verdict))
    stands.later, stands.changed, stands.split = later, changed, judged.split
    return stands


def standing(run: Path | Sequence[Path], judge: str, spec: JudgeSpec, reviews: Iterable[Review] = ()) -> Standing:
    """`fold` over what is read of a run's directory or its layers, with as many votes as the judge's folder asks."""
    layers = [run] if isinstance(run, Path) else run
    return fold(Speech.of([Layer.of(layer) for layer in layers], judge, spec, reviews), spec, spec.votes)


def _judged(speech: Speech) -> list[Entry]:
    """The history without what is evidence alone."""
    return [entry for entry in speech.history if entry.record.source != EVIDENCE]


def _ups(verdict: Mapping[str, bool | str], spec: JudgeSpec) -> tuple[str, ...]:
    return tuple(flag for flag in spec.flags if verdict.get(flag) is True)


def _said(flags: Sequence[str]) -> str:
    return f"flagged ({', '.join(flags)})" if flags else "clean"


def _first(speech: Speech) -> Mapping[str, bool | str] | None:
    inline = speech.files.get("inline")
    if inline is not None and inline.found.verdict is not None:
        return inline.found.verdict
    return next((entry.record.verdict for entry in _judged(speech) if entry.record.verdict), None)


def _of_file(given: Given, source: str) -> Standing:
    found = given.found
    absent = [name for name, value in (found.verdict or {}).items() if isinstance(value, bool)]
    absent = [name for name in absent if not str((found.verdict or {}).get(f"justification_{name}") or "").strip()]
    hint = "" if found.how == OLD_FORM or not absent else f"no justification of {', '.join(absent)}"
    return Standing(
        found.state, found.verdict, source, found.reason, given.path, found.meta, plain=found.state, votes=1,
        imported=given.entry is None and source != "manual", hint=hint, entry=given.entry,
        extras=tuple(sanitize(name, limit=60, newlines=False) for name in list(found.extras)[:10]),
    )  # fmt: skip


def _of_review(review: Review, spec: JudgeSpec, manual: Given | None) -> Standing:
    verdict = verdict_in(review, spec)
    if verdict is None:
        state, words = VerdictState.UNREADABLE, f"review {review.name} cannot be understood"
        return Standing(state, None, "review", words, str(review.path), plain=state, review=review)
    state = VerdictState.FLAGGED if _ups(verdict, spec) else VerdictState.CLEAN
    hint = ""
    said = manual.found.verdict if manual is not None else None
    if manual is not None and (said is None or _ups(said, spec) != _ups(verdict, spec)):
        hint = f"{os.path.basename(manual.path)} says something else than the newest review, which counts"
    return Standing(state, verdict, "review", "", str(review.path), plain=state, hint=hint, review=review)


def _of_judges(speech: Speech, spec: JudgeSpec, wanted: int) -> Standing:
    """What the judges say, before people: majority > rerun > inline; then what speaks against it."""
    source = next((name for name in ("rerun", "inline") if name in speech.files), "none")
    if source == "none":
        last = next(reversed(_judged(speech)), None)
        if last is None or last.record.verdict is not None:
            votes = ", ".join(sorted(name.removeprefix("vote ") for name in speech.files if name.startswith("vote ")))
            words = f"no first vote, without which vote {votes} does not count" if votes else "no verdict"
            return Standing(VerdictState.MISSING, reason=words, wanted=wanted)
        record = last.record
        return Standing(record.state, reason=record.reason, plain=record.state, wanted=wanted, entry=last)
    given = {1: speech.files[source]}
    given |= {int(name[5:]): file for name, file in speech.files.items() if name.startswith("vote ")}
    count = max(wanted, *given, *(_asked_with(number, file) for number, file in given.items()))
    found = _of_file(given[1], source)
    found.wanted, found.votes = count, len(given)
    if len(given) == count > 1:
        _majority(given, spec, found)
    elif count > 1:
        found.reason = found.reason or f"{len(given)} of {count} votes"
        found.hint = _joined(found.hint, _unread(given))
    if found.verdict is None:
        return found
    tied, found.split = _counted(given, spec) if len(given) > 1 else ([], "")
    against = [f"the votes on {flag} tie" for flag in tied]
    for flag, finding in proofs(speech.history).items():
        if found.verdict.get(flag) is False:
            place = f" ({finding.file}{f':{finding.line}' if finding.line else ''})" if finding.file else ""
            against.append(f"{flag} is false, but the rules have a proof: {finding.words}{place}")
    if against:
        found.state = VerdictState.CONTRADICTORY
        found.reason = sanitize("; ".join(against), limit=500, newlines=False)
    return found


def _asked_with(number: int, vote: Given) -> int:
    """How many votes were asked for together with this one: as its record says; of slot files of others as the original
    does it."""
    if vote.entry is None:
        return _THEIR_VOTES if number > 1 else 1
    said = (vote.entry.record.model_extra or {}).get("votes_wanted")
    return said if isinstance(said, int) and 1 <= said <= MAX_VOTES else 1


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _unread(given: Mapping[int, Given]) -> str:
    return _joined(*(f"vote {n}: {given[n].found.reason}" for n in sorted(given) if given[n].found.verdict is None))


def _counted(given: Mapping[int, Given], spec: JudgeSpec) -> tuple[list[str], str]:
    """(flags on which the votes that are there tie, how they differ otherwise)."""
    read = [file.found.verdict for file in given.values() if file.found.verdict is not None]
    tied, split = [], []
    for flag in spec.flags:
        up = sum(verdict[flag] is True for verdict in read)
        down = len(read) - up
        if up and up == down:
            tied.append(flag)
        elif up and down:
            split.append(f"{max(up, down)}:{min(up, down)}" + (f" on {flag}" if len(spec.flags) > 1 else ""))
    return tied, ", ".join(split)


def _majority(given: Mapping[int, Given], spec: JudgeSpec, found: Standing) -> None:
    """Make `found`, the first vote's, that of all. Per field, more than half; the reasons of the votes that carried it
    are joined. On a tie the first vote's."""
    found.source = "majority"
    read: list[dict[str, bool | str]] = []
    for number in sorted(given):
        vote = given[number].found
        if vote.verdict is None:
            found.state = found.plain = vote.state
            found.verdict, found.reason = None, f"vote {number}: {vote.reason}"
            return
        read.append(vote.verdict)
    verdict: dict[str, bool | str] = {}
    tally = []
    for flag in spec.flags:
        up = sum(fields[flag] is True for fields in read)
        verdict[flag] = carried = read[0][flag] if 2 * up == len(read) else 2 * up > len(read)
        reasons = [fields.get(f"justification_{flag}") for fields in read if fields[flag] is carried]
        verdict[f"justification_{flag}"] = "\n\n".join(dict.fromkeys(str(reason) for reason in reasons if reason))
        tally.append(f"{flag} {up}:{len(read) - up}")
    hints = [f"vote {number}: {words}" for number, fields in enumerate(read, 1) if (words := at_odds(fields))]
    found.verdict, found.reason = verdict, ", ".join(tally)
    found.state = found.plain = VerdictState.FLAGGED if _ups(verdict, spec) else VerdictState.CLEAN
    found.imported = all(file.entry is None for file in given.values())
    found.hint = _joined(found.hint, *hints)
