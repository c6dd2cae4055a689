"""The final evaluation as a sequence of attempts, with evaluators that fail as told (E §9 item 14, case A20)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.errors import NotAllowed
from ptb_tui.evaluation import final
from ptb_tui.evaluation.classify import kind_of
from ptb_tui.evaluation.final import Attempt, AttemptResult


@dataclass(frozen=True)
class Step:
    max_tokens: int | None
    tries: int


LADDER = (Step(None, 4), Step(3000, 3), Step(2000, 2))
GOOD = AttemptResult({"accuracy": 0.5}, 10)
Call = tuple[int, int, int, int | None]


def bad(n: int, seconds: float = 1.0, cause: str = "eval_failed") -> AttemptResult:
    return AttemptResult(None, seconds, cause, f"reason {n}", f"key {n}")


def recorder(answer: Callable[[int, int, int], AttemptResult]) -> tuple[list[Call], final.RunAttempt]:
    calls: list[Call] = []

    def run(attempt: Attempt) -> AttemptResult:
        calls.append((attempt.seed, attempt.stage, attempt.n, attempt.max_tokens))
        return answer(attempt.seed, attempt.stage, attempt.n)

    return calls, run


def test_success_at_once() -> None:
    calls, run = recorder(lambda *_: GOOD)
    outcome = final.run_final((1, 2), LADDER, run)
    assert calls == [(1, 0, 1, None), (2, 0, 1, None)]
    assert outcome.stage == 0 and not outcome.cause and list(outcome.measured) == [1, 2]


def test_the_whole_ladder_4_3_2_then_stop() -> None:
    calls, run = recorder(lambda seed, stage, n: bad(n))
    outcome = final.run_final((1, 2), LADDER, run)
    assert [call[1] for call in calls] == [0] * 4 + [1] * 3 + [2] * 2
    assert [call[2] for call in calls] == list(range(1, 10)) and {call[0] for call in calls} == {1}
    assert [call[3] for call in calls] == [None] * 4 + [3000] * 3 + [2000] * 2
    assert outcome.cause == "eval_failed" and not outcome.measured and outcome.stage is None
    assert "9 attempts" in outcome.why and "reason 9" in outcome.why


def test_later_seeds_start_at_the_first_ones_stage() -> None:
    calls, run = recorder(lambda seed, stage, n: GOOD if stage == 1 else bad(n))
    outcome = final.run_final((1, 2, 3), LADDER, run)
    assert calls[:5] == [(1, 0, 1, None), (1, 0, 2, None), (1, 0, 3, None), (1, 0, 4, None), (1, 1, 5, 3000)]
    assert calls[5:] == [(2, 1, 1, 3000), (3, 1, 1, 3000)]
    assert outcome.stage == 1


def test_a_later_seed_that_fails_is_left_out() -> None:
    calls, run = recorder(lambda seed, stage, n: GOOD if seed != 2 else bad(n))
    outcome = final.run_final((1, 2, 3), LADDER, run)
    assert list(outcome.measured) == [1, 3] and not outcome.cause
    assert sum(1 for call in calls if call[0] == 2) == 9


def test_identical_fast_failures_stop_the_ladder() -> None:
    calls, run = recorder(lambda seed, stage, n: bad(0))
    outcome = final.run_final((1,), LADDER, run, identical_failures=3)
    assert len(calls) == 3 and "same words" in outcome.why and "reason 0" in outcome.why


def test_slow_or_different_failures_do_not_stop_it() -> None:
    slow, run = recorder(lambda seed, stage, n: bad(0, seconds=final.FAST_S + 1))
    final.run_final((1,), LADDER, run)
    mixed, run = recorder(lambda seed, stage, n: bad(n % 2))
    final.run_final((1,), LADDER, run)
    assert len(slow) == len(mixed) == 9


def test_metrics_on_the_fifth_try() -> None:
    calls, run = recorder(lambda seed, stage, n: GOOD if n == 5 else bad(n))
    assert final.run_final((1,), LADDER, run).stage == 1 and len(calls) == 5


def test_a_cause_of_the_site_is_kept_only_when_nothing_else_failed() -> None:
    _, run = recorder(lambda seed, stage, n: bad(n, cause="disk_full"))
    assert final.run_final((1,), LADDER, run).cause == "disk_full"
    _, run = recorder(lambda seed, stage, n: bad(n, cause="disk_full" if n > 1 else "eval_failed"))
    assert final.run_final((1,), LADDER, run).cause == "eval_failed"


def test_every_attempt_is_reported_before_and_after() -> None:
    seen: list[Attempt] = []
    _, run = recorder(lambda seed, stage, n: GOOD if n == 2 else bad(n))
    final.run_final((1,), LADDER, run, report=seen.append)
    assert [(attempt.n, attempt.result is None) for attempt in seen] == [(1, True), (1, False), (2, True), (2, False)]
    assert seen[1].to_json()["why"] == "reason 1" and seen[3].to_json()["ok"] is True


def test_when_the_time_is_up_what_was_measured_counts() -> None:
    calls, run = recorder(lambda seed, stage, n: GOOD)
    outcome = final.run_final((1, 2, 3), LADDER, run, time_left=lambda: len(calls) < 2)
    assert list(outcome.measured) == [1, 2] and not outcome.cause and "seed 3" in outcome.why
    calls, run = recorder(lambda seed, stage, n: bad(n))
    outcome = final.run_final((1, 2), LADDER, run, time_left=lambda: len(calls) < 2)
    assert outcome.cause == "step_limit" and "2 attempts" in outcome.why and len(calls) == 2
    outcome = final.run_final((1,), LADDER, run, time_left=lambda: False)
    assert outcome.cause == "step_limit" and not outcome.attempts


@pytest.mark.parametrize("seeds", [(), (1, 1)])
def test_seeds_must_be_there_and_differ(seeds: tuple[int, ...]) -> None:
    with pytest.raises(NotAllowed):
        final.run_final(seeds, LADDER, lambda *_: GOOD)


def failing(kind: str, until: int = 99) -> Callable[[int, int, int], AttemptResult]:
    """An evaluator that fails with this class of failure for its first attempts, each time in other words."""
    cause = kind_of(kind).cause
    return lambda seed, stage, n: GOOD if n > until else AttemptResult(None, 1.0, cause, f"{n}", f"{n}", kind=kind)


def eased(kind: str, until: int = 99, eases: int = 2) -> tuple[list[tuple[int, int]], final.Outcome]:
    seen: list[tuple[int, int]] = []

    def run(attempt: Attempt) -> AttemptResult:
        seen.append((attempt.stage, attempt.ease))
        return failing(kind, until if attempt.seed == 1 else 0)(attempt.seed, attempt.stage, attempt.n)

    return seen, final.run_final((1, 2), LADDER, run, eases=eases)


def test_memory_eases_first_and_then_lowers_the_tokens() -> None:
    seen, outcome = eased("GPU memory")
    assert seen == [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2)] and outcome.cause == "eval_failed"
    seen, outcome = eased("GPU memory", until=1)
    assert seen == [(0, 0), (0, 1), (0, 1)] and outcome.ease == 1 and outcome.stage == 0  # the second seed starts there
    seen, _ = eased("memory", eases=0)
    assert seen == [(0, 0), (1, 0), (2, 0)]


def test_a_context_that_is_too_long_lowers_the_tokens_at_once() -> None:
    seen, outcome = eased("context length", until=1)
    assert seen == [(0, 0), (1, 0), (1, 0)] and outcome.stage == 1


def test_two_timeouts_lower_the_tokens() -> None:
    calls, run = recorder(lambda seed, stage, n: AttemptResult(None, 9e3, "eval_failed", "", "t", True, "timeout"))
    final.run_final((1,), LADDER, run)
    assert [call[1] for call in calls] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("kind", ["tokenizer", "image processor", "model load", "template"])
def test_what_would_fail_again_is_tried_twice(kind: str) -> None:
    calls, run = recorder(lambda *_: AttemptResult(None, 500.0, "eval_failed", "w", "same", kind=kind))
    outcome = final.run_final((1,), LADDER, run)
    assert len(calls) == 2 and kind in outcome.why
    calls, run = recorder(failing(kind))  # other words each time: the counts of the protocol hold
    final.run_final((1,), LADDER, run)
    assert len(calls) == 9


def test_a_grader_that_gives_up_leaves_no_score_and_no_zero() -> None:
    calls, run = recorder(failing("grader"))
    outcome = final.run_final((1, 2), LADDER, run)
    assert outcome.cause == "grading_incomplete" and len(calls) == 1
    calls, run = recorder(lambda seed, stage, n: GOOD if seed == 1 else failing("grader")(seed, stage, n))
    outcome = final.run_final((1, 2, 3), LADDER, run)
    assert outcome.cause == "grading_incomplete" and [call[0] for call in calls] == [1, 2]
    _, run = recorder(lambda seed, stage, n: bad(n) if n == 1 else failing("grader")(seed, stage, n))
    assert final.run_final((1,), LADDER, run).cause == "grading_incomplete"


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.lists(st.booleans(), min_size=40, max_size=40),
    st.integers(1, 3),
)
def test_stages_never_go_back_and_attempts_are_bounded(tries: list[int], luck: list[bool], count: int) -> None:
    ladder = [Step(None, number) for number in tries]
    remaining = iter(luck)
    calls, run = recorder(lambda seed, stage, n: GOOD if next(remaining) else bad(n))
    outcome = final.run_final(tuple(range(count)), ladder, run)
    for seed in range(count):
        own = [call for call in calls if call[0] == seed]
        assert [call[1] for call in own] == sorted(call[1] for call in own) and len(own) <= sum(tries)
        assert [call[2] for call in own] == list(range(1, len(own) + 1))
    assert bool(outcome.cause) == (0 not in outcome.measured)
    assert all(found.stage >= (outcome.stage or 0) for found in outcome.measured.values())
