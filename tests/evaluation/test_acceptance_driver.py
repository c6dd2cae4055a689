"""Acceptance test 14 of the evaluation's specification: the driver with an evaluator that does as it is told, on the
ladders that the shipped tasks have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import Task, load_task
from ptb_tui.core.errors import StepError
from ptb_tui.evaluation import seeds
from ptb_tui.evaluation.final import Attempt, AttemptResult, Outcome, run_final
from ptb_tui.evaluation.record import new_output
from ptb_tui.run.steps.evaluate import asked_of
from tests.evaluation.models import model

CONTENT = Content.of()
SCORED = ("aime2025", "arenahardwriting", "gpqamain", "gsm8k", "healthbench", "humaneval")
STAGES = {
    "aime2025": (16000, 12000, 8000),
    "gpqamain": (16000, 12000, 8000),
    "bfcl": (16000, 12000, 8000),
    "arenahardwriting": (16384, 12288, 8192),
    "healthbench": (16384, 12288, 8192),
    "gsm8k": (4000, 3000, 2000),
    "humaneval": (4000, 3000, 2000),
}
COUNTS = {"aime2025": 5, "gpqamain": 3, "gsm8k": 3, "humaneval": 3, "arenahardwriting": 1, "healthbench": 1}
GOOD = {"accuracy": 0.5, "stderr": 0.1}


def task_of(name: str) -> Task:
    return load_task(CONTENT, name, Path("/nowhere"))


def drive(name: str, answer: Callable[[Attempt], dict[str, float] | None], count: int = 3) -> Outcome:
    """The driver on a shipped task's own ladder; a failure has other words each time."""

    def run(attempt: Attempt) -> AttemptResult:
        metrics = answer(attempt)
        return AttemptResult(metrics and dict(metrics), 200.0, "eval_failed", "w", f"{attempt.seed}:{attempt.n}")

    return run_final(seeds.ALL[:count], task_of(name).file.final.ladder, run)


@pytest.mark.parametrize("name", STAGES)
def test_ladder_order_and_counts(name: str) -> None:
    outcome = drive(name, lambda _: None)
    assert [attempt.max_tokens for attempt in outcome.attempts] == [
        *[STAGES[name][0]] * 4,
        *[STAGES[name][1]] * 3,
        *[STAGES[name][2]] * 2,
    ]
    assert task_of(name).file.final.attempt_timeout_s == 28_800


def test_a_first_seed_that_fails_everywhere_ends_it() -> None:
    outcome = drive("gsm8k", lambda _: None)
    assert {attempt.seed for attempt in outcome.attempts} == {72332} and outcome.cause == "eval_failed"
    assert not outcome.measured


def test_a_later_seed_that_fails_is_left_out_and_start_stages_are_inherited() -> None:
    outcome = drive("gsm8k", lambda attempt: GOOD if attempt.stage == 1 and attempt.seed != 87681 else None)
    of = {seed: [a.stage for a in outcome.attempts if a.seed == seed] for seed in seeds.ALL[:3]}
    assert of == {72332: [0, 0, 0, 0, 1], 87681: [1, 1, 1, 2, 2], 38992: [1]}
    assert outcome.stage == 1 and list(outcome.measured) == [72332, 38992] and not outcome.cause
    whole = seeds.aggregate(outcome.measured, 3)
    assert whole["num_seeds"] == 3 and whole["num_seeds_succeeded"] == 2
    assert whole["per_seed"]["38992"]["max_tokens_stage"] == 1


def test_the_mean_is_over_the_seeds_that_succeeded() -> None:
    values = {72332: 0.25, 38992: 0.75}
    outcome = drive("gsm8k", lambda a: {"accuracy": values[a.seed], "stderr": 0.1} if a.seed in values else None)
    assert seeds.aggregate(outcome.measured, 3)["accuracy"] == 0.5


def test_other_keys_for_one_seed_are_an_error() -> None:
    outcome = drive("gsm8k", lambda a: GOOD if a.seed == 72332 else {"accuracy": 0.5})
    with pytest.raises(StepError, match="stderr"):
        seeds.aggregate(outcome.measured, 3)


@pytest.mark.parametrize("name", SCORED)
def test_seeds_and_the_greedy_shortcut(tmp_path: Path, name: str) -> None:
    protocol, task = load_protocol(CONTENT, "1.2"), task_of(name)
    greedy = model(tmp_path / "greedy", generation_config__json=b'{"temperature": 0.0}')
    sampling = model(tmp_path / "sampling", generation_config__json=b'{"temperature": 0.6}')
    torn = model(tmp_path / "torn", generation_config__json=b"{")
    whole = asked_of({}, task, protocol, sampling)
    assert whole.seeds == seeds.ALL[: COUNTS[name]] and whole.whole and whole.limit == -1
    assert asked_of({}, task, protocol, torn).seeds == whole.seeds  # a probe that fails takes all
    short = asked_of({}, task, protocol, greedy)
    assert short.seeds == (whole.seeds if name == "gpqamain" else whole.seeds[:1]) and short.whole
    given = asked_of({"seeds": [5, 6]}, task, protocol, greedy)
    assert given.seeds == (5, 6) and not given.whole  # seeds that are given are run


def test_a_timeout_is_a_failed_attempt_and_nothing_is_overwritten(tmp_path: Path) -> None:
    late = AttemptResult(None, 28_800, "eval_failed", "no result within 28800 s", "timeout", True, "timeout")
    outcome = run_final((1,), task_of("gsm8k").file.final.ladder, lambda _: late)
    assert [attempt.stage for attempt in outcome.attempts] == [0, 0, 1, 1, 2, 2]  # a repeat of the same takes as long
    first = new_output(tmp_path)
    (first / "metrics_seed1.json").write_text("{}")
    assert first.name == "evaluation" and new_output(tmp_path).name == "evaluation_2"
