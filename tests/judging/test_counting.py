"""Counts and intervals of what judges said about cases with a known truth, and what they say of a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.calibration import Measured
from ptb_tui.core.verdict import VerdictRecord, VerdictState
from ptb_tui.judging.calibration import Answer, Kept, Subject
from ptb_tui.judging.counting import Asked, agreements, beside, flag_words, measure, wilson

SUBJECT = Subject(judge="j", engine="codex", model="m", effort="high", prompt_hash="words", version="1")


def answer(
    case: str, truth: bool, said: bool | None, vote: int = 1, digest: str = "d", t: str = "1", cost: float | None = None
) -> Answer:
    state = VerdictState.TIMED_OUT if said is None else VerdictState.FLAGGED if said else VerdictState.CLEAN
    record = VerdictRecord(
        judge="j",
        output_id="j",
        state=state,
        engine="codex",
        cost_usd=cost,
        verdict=None if said is None else {"f": said},
    )
    return Answer(case=case, digest=digest, vote=vote, expect={"f": truth}, record=record, t=t, tokens={"input": 3})


def kept(*answers: Answer, **changes: str) -> Kept:
    return Kept(SUBJECT.model_copy(update=changes), Path("place"), answers)


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(9, 9, 0.7009, 1.0), (0, 11, 0.0, 0.2588), (3, 4, 0.3006, 0.9544), (1, 1, 0.2065, 1.0)],
)
def test_intervals_of_known_value(hits: int, of: int, low: float, high: float) -> None:
    assert wilson(hits, of) == pytest.approx((low, high), abs=5e-5)
    assert wilson(0, 0) is None


@given(st.integers(0, 400), st.integers(1, 400))
def test_an_interval_holds_the_share(hits: int, of: int) -> None:
    low, high = wilson(min(hits, of), of) or (2.0, -1.0)
    assert 0.0 <= low <= min(hits, of) / of <= high <= 1.0


def test_cases_are_counted_by_the_majority_of_their_votes() -> None:
    found = measure(
        kept(
            *(answer("a", True, said, n) for n, said in enumerate((True, True, False), 1)),
            *(answer("b", True, said, n) for n, said in enumerate((False, None, False), 1)),
            *(answer("c", False, said, n) for n, said in enumerate((True, False), 1)),
            answer("d", False, None),
            answer("e", False, True),
            answer("g", False, False),
        )
    )
    flag = found.flags[0]
    assert (flag.found, flag.guilty, flag.false, flag.clean) == (1, 2, 1, 2)
    assert (flag.missed, flag.wrong, flag.without) == (("b",), ("e",), ("c", "d"))
    assert (flag.same, flag.pairs) == (1 + 1 + 0, 3 + 1 + 1)
    assert found.votes == 3 and found.answers == 11 and found.cost_usd is None and found.tokens == 33
    assert flag_words(flag).startswith("1/2 found (95 %: 9–91 %), 1/2 false")


def test_a_case_that_changed_counts_in_its_newest_form() -> None:
    found = measure(
        kept(
            answer("a", True, False, 1, "old", "1", 0.5),
            answer("a", True, True, 2, "new", "2", 0.25),
            answer("a", True, True, 3, "new", "3", 0.25),
        )
    )
    assert found.cases == {"a": "new"} and found.flags[0].missed == () and found.cost_usd == 0.5


def test_agreement_between_models_is_over_the_cases_of_both() -> None:
    one = kept(answer("a", True, True), answer("b", False, False), answer("c", True, True, digest="x"))
    other = kept(answer("a", True, False), answer("b", False, False), answer("c", True, True), model="n")
    found = agreements([one, other])
    assert [(pair.first, pair.second, pair.same, pair.of) for pair in found] == [("codex m high", "codex n high", 1, 2)]


def test_what_was_measured_stands_beside_a_verdict_until_words_or_model_change() -> None:
    cases = [answer(f"a{n}", True, True) for n in range(9)] + [answer(f"b{n}", False, False) for n in range(11)]
    known = [measure(kept(*cases))]
    asked = Asked("codex", "m", "words", "high")
    found = beside([asked], known)
    assert found.state == "measured"
    assert found.words == "measured: 9/9 found (95 %: 70–100 %), 0/11 false (95 %: 0–26 %)"
    for other, why in (
        (Asked("codex", "m", "new words", "high"), "stale, of other words: 9/9"),
        (Asked("codex", "n", "words", "high"), "stale, of m high: 9/9"),
        (Asked("codex", "m", "words", "low"), "stale, of m high: 9/9"),
    ):
        stale = beside([other], known)
        assert stale.state == "stale" and why in stale.words
    assert beside([Asked("codex", "m", "words")], known).state == "measured", "a record of before says no effort"
    none: list[Measured] = []
    assert beside([asked], none).words == beside([], known).words == "not calibrated"
    both = beside([asked, Asked("openai_api", "x", "words")], known)
    assert (
        both.state == "none" and "openai_api x not calibrated" in both.words and "codex m measured: 9/9" in both.words
    )
