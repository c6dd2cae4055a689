"""How well judges judge, counted from what they said about runs with a known truth; and what that says of a verdict.

Pure. Cases are counted, not votes: the votes on one case are no independent looks at it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ptb_tui.core.calibration import Agreement, Calibration, FlagMeasure, Measured
from ptb_tui.judging.calibration import Answer, Kept

LEVEL = 0.95
_Z = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)


def wilson(hits: int, of: int) -> tuple[float, float] | None:
    """The 95 % score interval of Wilson for a share; None for no cases."""
    if of <= 0:
        return None
    share, z2 = hits / of, _Z * _Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return (0.0 if hits == 0 else max(0.0, middle - half), 1.0 if hits == of else min(1.0, middle + half))


def _cases(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    """The answers by case; of a case that has changed those to its newest form."""
    newest: dict[str, Answer] = {}
    for answer in answers:
        if answer.case not in newest or answer.t >= newest[answer.case].t:
            newest[answer.case] = answer
    found: dict[str, list[Answer]] = {}
    for answer in sorted(answers, key=lambda answer: (answer.case, answer.vote)):
        if answer.digest == newest[answer.case].digest:
            found.setdefault(answer.case, []).append(answer)
    return found


def _majority(votes: Sequence[bool | None]) -> bool | None:
    """What more than half of the votes with a verdict say; None for a tie or no verdict."""
    given = [vote for vote in votes if vote is not None]
    up = sum(given)
    return None if not given or 2 * up == len(given) else 2 * up > len(given)


def _flag(name: str, cases: Mapping[str, Sequence[Answer]]) -> FlagMeasure:
    counts = {(truth, said): 0 for truth in (True, False) for said in (True, False)}
    missed, wrong, without = list[str](), list[str](), list[str]()
    same = pairs = 0
    for case, answers in cases.items():
        if name not in answers[0].expect:
            continue
        truth, votes = answers[0].expect[name], [answer.flag(name) for answer in answers]
        for one, other in combinations([vote for vote in votes if vote is not None], 2):
            same, pairs = same + (one == other), pairs + 1
        said = _majority(votes)
        if said is None:
            without.append(case)
            continue
        counts[truth, said] += 1
        if said != truth:
            (missed if truth else wrong).append(case)
    found, guilty = counts[True, True], counts[True, True] + counts[True, False]
    false, clean = counts[False, True], counts[False, True] + counts[False, False]
    return FlagMeasure(
        flag=name, found=found, guilty=guilty, false=false, clean=clean, sensitivity=wilson(found, guilty),
        specificity=wilson(clean - false, clean), same=same, pairs=pairs, missed=tuple(missed), wrong=tuple(wrong),
        without=tuple(without),
    )  # fmt: skip


def measure(kept: Kept) -> Measured:
    """The counts of one subject. Cost and tokens are None unless all answers have them."""
    cases, subject = _cases(kept.answers), kept.subject
    counted = [answer for answers in cases.values() for answer in answers]
    flags = dict.fromkeys(flag for answer in counted for flag in answer.expect)
    costs = [0.0 if subject.engine == "rules" else answer.record.cost_usd for answer in counted]
    known = [cost for cost in costs if cost is not None]
    tokens = [sum(answer.tokens.values()) for answer in counted if answer.tokens]
    return Measured(
        **subject.model_dump(exclude={"v"}),
        cases={case: answers[0].digest for case, answers in cases.items()},
        votes=max((len(answers) for answers in cases.values()), default=1),
        answers=len(counted),
        flags=tuple(_flag(name, cases) for name in flags),
        cost_usd=math.fsum(known) if len(known) == len(costs) else None,
        tokens=sum(tokens) if len(tokens) == len(counted) else None,
        seconds=round(math.fsum(answer.seconds for answer in counted), 3),
        ended=max((answer.t for answer in counted), default=""),
        folder=str(kept.folder),
    )


def agreements(kept: Sequence[Kept]) -> tuple[Agreement, ...]:
    """How often two subjects of one judge say the same, over the flags of the cases that both judged."""
    found = []
    for one, other in combinations(kept, 2):
        if one.subject.judge != other.subject.judge or one.subject.words == other.subject.words:
            continue
        mine, theirs = _cases(one.answers), _cases(other.answers)
        same = of = 0
        for case in mine.keys() & theirs.keys():
            if mine[case][0].digest != theirs[case][0].digest:
                continue
            for flag in mine[case][0].expect:
                left = _majority([answer.flag(flag) for answer in mine[case]])
                right = _majority([answer.flag(flag) for answer in theirs[case]])
                if left is not None and right is not None:
                    same, of = same + (left == right), of + 1
        if of:
            found.append(
                Agreement(
                    judge=one.subject.judge, first=one.subject.words, second=other.subject.words, same=same, of=of
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Asked:
    """Who gave a vote: what of a verdict's record says whether a measurement holds for it. An empty effort is not
    known."""

    engine: str
    model: str
    prompt_hash: str
    effort: str = ""


def _share(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f" (95 %: {interval[0] * 100:.0f}–{interval[1] * 100:.0f} %)"


def flag_words(flag: FlagMeasure) -> str:
    """`9/9 found (95 %: 70–100 %), 0/11 false (95 %: 0–26 %)`."""
    false = None if flag.specificity is None else (1 - flag.specificity[1], 1 - flag.specificity[0])
    return f"{flag.found}/{flag.guilty} found{_share(flag.sensitivity)}, {flag.false}/{flag.clean} false{_share(false)}"


def _words(measured: Measured) -> str:
    if len(measured.flags) == 1:
        return flag_words(measured.flags[0])
    return "; ".join(f"{flag.flag} {flag_words(flag)}" for flag in measured.flags)


def _one(asked: Asked, measured: Sequence[Measured]) -> Calibration:
    """What was measured of one who gave a vote. `measured`: of this judge, newest first."""
    known = [one for one in measured if one.engine == asked.engine]
    if not known:
        return Calibration(state="none", words="not calibrated")
    efforts = {"", asked.effort} if asked.effort and asked.engine != "rules" else None
    fitting = [one for one in known if one.model == asked.model and (efforts is None or one.effort in efforts)]
    exact = [one for one in fitting if one.prompt_hash == asked.prompt_hash]
    if exact:
        return Calibration(state="measured", words=f"measured: {_words(exact[0])}", measured=(exact[0],))
    last = (fitting or known)[0]
    model = " ".join(part for part in (last.model, last.effort) if part)
    why = ("other rules" if asked.engine == "rules" else "other words") if fitting else f"{model or 'another model'}"
    return Calibration(state="stale", words=f"calibration is stale, of {why}: {_words(last)}", measured=(last,))


def beside(asked: Sequence[Asked], measured: Sequence[Measured]) -> Calibration:
    """What was measured of those who gave the votes of a verdict."""
    newest = sorted(measured, key=lambda one: one.ended, reverse=True)
    found = {one: _one(one, newest) for one in asked}
    if not found:
        return Calibration(state="none", words="not calibrated")
    order = ("none", "stale", "measured")
    state = min((one.state for one in found.values()), key=order.index)
    words = [
        calibration.words
        if len(found) == 1
        else f"{' '.join(filter(None, (who.engine, who.model)))} {calibration.words}"
        for who, calibration in found.items()
    ]
    every = tuple(one for calibration in found.values() for one in calibration.measured)
    return Calibration(state=state, words="; ".join(dict.fromkeys(words)), measured=every)
