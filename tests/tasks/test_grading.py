"""The paid grader: endpoints, retries, kept replies, and Arena's and HealthBench's scores (E §1.5.6, §1.5.7)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tasks.grader import Reply, scripted_grader
from tests.tasks.loading import load

grading = load("ptb_grading")
items_module = load("ptb_items")
arena = load("arena_judging", "arenahardwriting/evaluation_code")
health = load("health_grading", "healthbench/evaluation_code")
LIMITED: Reply = (429, {"message": "slow down", "code": "rate_limit_exceeded"})
QUOTA: Reply = (429, {"message": "pay", "code": "insufficient_quota"})
REASONING: Reply = (400, {"message": "Unrecognized: reasoning_effort"})


def question(text: str = "hello", tries: int = 3) -> Any:
    return grading.Question(
        messages=[{"role": "user", "content": text}],
        options={"reasoning_effort": "medium"},
        read=lambda reply: reply[3:] if reply.startswith("ok ") else None,
        waits=(0.0,) * tries,
    )


@contextmanager
def grader(script: list[Reply], cache: Path | None = None, workers: int = 1) -> Iterator[tuple[Any, list[Any]]]:
    """A grader whose endpoint gives the replies of a script, the last one for ever."""

    def answer(body: dict[str, Any]) -> Reply:
        return script.pop(0) if len(script) > 1 else script[0]

    with scripted_grader(answer) as (url, requests):
        made = grading.Grader(grading.Endpoint("word", "model", url), cache, workers)
        yield made, requests
        made.close()


def test_the_endpoint_follows_the_keys() -> None:
    assert grading.endpoint({"OPENAI_API_KEY": "a", "OPENROUTER_API_KEY": "b"}) == grading.Endpoint("a", "gpt-5-mini")
    named = grading.endpoint({"OPENAI_API_KEY": "a", "PTB_GRADER_URL": "http://127.0.0.1:1/v1"})
    assert named.base_url == "http://127.0.0.1:1/v1" and "'a'" not in repr(named)
    other = grading.endpoint({"OPENROUTER_API_KEY": "b"})
    assert other.model == "openai/gpt-5-mini" and other.base_url == "https://openrouter.ai/api/v1"
    with pytest.raises(items_module.InputMissing, match="OPENAI_API_KEY"):
        grading.endpoint({"OPENAI_API_KEY": ""})


@pytest.mark.parametrize("failures", [[LIMITED], ["nonsense"], [(500, {"message": "x"}), "nonsense"]])
def test_failures_are_tried_again(failures: list[Reply]) -> None:
    with grader([*failures, "ok 1"]) as (made, requests):
        assert made.ask(question()).value == "1"
        assert len(requests) == len(failures) + 1 and requests[0]["key"] == "Bearer word"


def test_exhausted_tries_are_incomplete_not_a_zero() -> None:
    with (
        grader([LIMITED]) as (made, requests),
        pytest.raises(grading.GradingIncomplete, match="graded 0 of 2, grading"),
    ):
        made.ask_all([question("a"), question("b")])
    assert len(requests) == 12, "three tries, and again in the second round"


def test_what_failed_in_the_first_round_is_asked_again_when_the_rest_is_done() -> None:
    with grader([LIMITED, LIMITED, LIMITED, "ok 1"]) as (made, requests):
        assert [grade.value for grade in made.ask_all([question("a"), question("b")])] == ["1", "1"]
    assert len(requests) == 5


@pytest.mark.parametrize(
    ("reply", "kind", "asked"),
    [
        (QUOTA, "credit", 1),
        ((402, {"message": "no credits left"}), "credit", 1),
        ((401, {"message": "bad key word"}), "key", 1),
        ((403, {"message": "not for you"}), "key", 1),
        ((404, {"message": "no such model", "code": "model_not_found"}), "endpoint", 1),
        (LIMITED, "limit", 6),
        ((500, {"message": "down"}), "endpoint", 6),
    ],
)
def test_what_is_in_the_way_is_named_and_the_key_is_not(reply: Reply, kind: str, asked: int) -> None:
    with grader([reply]) as (made, requests), pytest.raises(grading.GradingIncomplete) as caught:
        made.ask_all([question("a")])
    assert f"graded 0 of 1, grading incomplete ({kind}): " in str(caught.value) and "word" not in str(caught.value)
    assert len(requests) == asked


def test_every_call_is_noted_with_what_the_endpoint_says_about_it(tmp_path: Path) -> None:
    with grader([LIMITED, "nonsense", "ok 1"], tmp_path) as (made, _):
        made.ask_all([question("a")])
    lines = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    said = {"asked": "model", "model": "model-2026", "input": 10, "output": 2, "cost_usd": 0.25}
    assert lines == [{"asked": "model", "failed": "limit"}, said, said]


def test_a_refused_account_is_not_asked_again() -> None:
    with grader([QUOTA]) as (made, requests), pytest.raises(grading.GradingIncomplete, match="pay"):
        made.ask_all([question(str(number)) for number in range(20)])
    assert len(requests) == 1


def test_a_wrong_key_is_said_at_once() -> None:
    with grader([(401, {"message": "no"})]) as (made, requests), pytest.raises(grading.GradingIncomplete, match="401"):
        made.ask_all([question()])
    assert len(requests) == 1


def test_an_unreachable_endpoint_is_incomplete() -> None:
    made = grading.Grader(grading.Endpoint("word", "model", "http://127.0.0.1:9/v1"), None, 1)
    with pytest.raises(grading.GradingIncomplete):
        made.ask_all([question(tries=1)])
    made.close()


def test_an_endpoint_without_reasoning_effort_is_asked_without() -> None:
    with grader([REASONING, "ok 1", "ok 2"]) as (made, requests):
        assert made.ask(question("a")).value == "1" and made.ask(question("b")).value == "2"
    assert ["reasoning_effort" in request for request in requests] == [True, False, False]


def test_usable_replies_are_kept_and_a_repeat_resumes(tmp_path: Path) -> None:
    script: list[Reply] = ["ok 1", "ok 2", QUOTA]
    asked = [question(str(number)) for number in range(4)]
    with grader(script, tmp_path) as (made, _), pytest.raises(grading.GradingIncomplete, match="graded 2 of 4"):
        made.ask_all(asked)
    for place in tmp_path.rglob("*.json"):
        assert "word" not in place.read_text()
    broken = sorted(tmp_path.rglob("*.json"))[0]
    with grader(["ok 3"], tmp_path) as (made, requests):
        assert [grade.value for grade in made.ask_all(asked)] == ["1", "2", "3", "3"] and len(requests) == 2
        broken.write_text("{")
        made.ask_all(asked)
        assert len(requests) == 3


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("[[A>>B]]", "A>>B"),
        ("first [[A=B]] then [[B>A]].", "B>A"),
        ("[[b>>a]]", "B>>A"),
        ("my verdict: [A>B]", "A>B"),
        ("[A>B] but [[B>A]]", "B>A"),
        ("[[B<A]]", "A>B"),
        ("[[A<<B]]", "B>>A"),
        ("[[B<<A]]", "A>>B"),
        ("[[A<B]]", "B>A"),
        ("[[B=A]]", "A=B"),
        ("[[A]]", None),
        ("[[A>>>B]]", None),
        ("A is better", None),
        ("", None),
    ],
)
def test_labels(reply: str, label: str | None) -> None:
    assert arena.label_of(reply) == label


@pytest.mark.parametrize(
    ("games", "points"),
    [
        (("A>B", "A>B"), (0.0, 1.0)),
        (("A>>B", "B>>A"), (0.0,) * 6),
        (("B>>A", "A>>B"), (1.0,) * 6),
        (("A=B", "B>A"), (0.5, 0.0)),
        (("B>A", "A=B"), (1.0, 0.5)),
        (("B>A", None), ()),
        ((None, None), ()),
    ],
)
def test_points_of_two_games(games: tuple[str | None, str | None], points: tuple[float, ...]) -> None:
    assert arena.scores(*games) == points


def test_win_rate_is_over_points() -> None:
    assert arena.win_rate([]) == {"accuracy": 0.0, "stderr": 0.0}
    assert arena.win_rate([1.0]) == {"accuracy": 1.0, "stderr": 0.0}
    found = arena.win_rate([1.0, 1.0, 1.0, 0.0])
    assert found["accuracy"] == 0.75 and found["stderr"] == pytest.approx(0.25)


def test_the_candidate_is_b_first_and_then_a() -> None:
    class Records:
        def ask_all(self, asked: list[Any]) -> list[Any]:
            self.asked = asked
            return [grading.Grade("B>>A"), grading.Grade("A>B")]

    records = Records()
    item = {"id": "1", "question": "Q {a}", "baseline": "BASE"}
    wait = SimpleNamespace(grader_wait=0.0, coverage=1.0)
    metrics = arena.grade([item], {"1": "MINE"}, records, wait)
    assert metrics["accuracy"] == 1.0
    first, second = (question.messages[1]["content"] for question in records.asked)
    assert first.index("BASE") < first.index("MINE") and second.index("MINE") < second.index("BASE")
    assert "Q {a}" in first and records.asked[0].waits == (0.0, 0.0, 0.0)


def test_games_without_a_verdict_are_left_out_but_not_many() -> None:
    class Replies:
        def __init__(self, missing: int) -> None:
            self.missing = missing

        def ask_all(self, asked: list[Any]) -> list[Any]:
            none = [grading.Grade()] * self.missing
            return [*none, *[grading.Grade("A=B")] * (len(asked) - self.missing)]

    items = [{"id": str(number), "question": "Q", "baseline": "B"} for number in range(40)]
    answers = {item["id"]: "A" for item in items}
    args = SimpleNamespace(grader_wait=0.0, coverage=0.95)
    assert arena.grade(items, answers, Replies(4), args)["accuracy"] == 0.5
    with pytest.raises(grading.GradingIncomplete, match=r"graded 37 of 40, grading incomplete \(reply\)"):
        arena.grade(items, answers, Replies(5), args)
    args.coverage = 1.0
    with pytest.raises(grading.GradingIncomplete, match="graded 39 of 40"):
        arena.grade(items, answers, Replies(1), args)


@pytest.mark.parametrize(
    ("reply", "met"),
    [
        ('{"explanation": "x", "criteria_met": true}', True),
        ('```json\n{"explanation": "x", "criteria_met": false}\n```', False),
        ('Here:\n```\n{"criteria_met": true}\n```', True),
        ('{"criteria_met": "true"}', None),
        ('{"criteria_met": 1}', None),
        ("[]", None),
        ("yes", None),
        ("", None),
        ("[" * 100_000, None),
    ],
)
def test_read_reply(reply: str, met: bool | None) -> None:
    assert health.read_reply(reply) is met


def rubric(points: int, axis: str) -> dict[str, Any]:
    return {"criterion": "c", "points": points, "tags": [f"axis:{axis}", "level:x"]}


def test_health_scores() -> None:
    items = [
        {"rubrics": [rubric(5, "a"), rubric(5, "b"), rubric(-5, "b")], "tags": ["theme:t", "other"]},
        {"rubrics": [rubric(4, "a"), rubric(-8, "c")], "tags": ["theme:u"]},
    ]
    found = health.metrics_of(items, [[True, True, True], [False, True]])
    assert found["accuracy"] == 0.0, "the mean of 0.5 and -2 is clipped"
    assert found["by_theme"] == {"t": 0.5, "u": 0.0}
    assert found["by_axis"] == {"a": pytest.approx(5 / 9), "b": 0.0}, "an axis without positive points has no ratio"
    assert found["n_examples"] == 2 and found["total_grader_calls"] == 5
    whole = health.metrics_of(items, [[True, True, False], [True, False]])
    assert whole["accuracy"] == 1.0 and whole["stderr"] == 0.0
    half = health.metrics_of(items, [[True, False, False], [True, False]])
    assert half["accuracy"] == 0.75 and half["stderr"] == health.bootstrap([0.5, 1.0])
    assert half["stderr"] == pytest.approx(0.25 / 2**0.5, rel=0.1)


def test_the_bootstrap_always_draws_the_same() -> None:
    assert health.bootstrap([0.1, 0.5, 0.9, -2.0]) == health.bootstrap([0.1, 0.5, 0.9, -2.0])


def test_the_grader_sees_the_conversation_and_one_criterion() -> None:
    item = {"id": "1", "messages": [{"role": "user", "content": "It {criterion} hurts."}], "rubrics": [rubric(-3, "a")]}
    asked = health.question(item, "Rest.", item["rubrics"][0], 2.0)
    text = asked.messages[0]["content"]
    assert "user: It {criterion} hurts.\n\nassistant: Rest." in text and "[-3] c" in text
    assert asked.waits == (2.0, 4.0, 6.0, 8.0, 10.0) and asked.options == {"max_completion_tokens": 49152}


def test_an_item_without_positive_points_is_refused(tmp_path: Path) -> None:
    with pytest.raises(items_module.InputMissing, match="positive"):
        health.checked([{"id": "1", "rubrics": [rubric(-1, "a")]}], tmp_path)


def test_some_items_are_graded_twice_and_the_score_is_not_touched(tmp_path: Path) -> None:
    graded = load("ptb_graded")
    item = {"id": "1", "messages": [{"role": "user", "content": "Hi"}], "rubrics": [rubric(4, "a"), rubric(6, "b")]}
    args = SimpleNamespace(grader_wait=0.0, coverage=1.0)
    spec = graded.GradedSpec("h", "", tmp_path, health.messages, health.grade, health.checked, 1, 0.0)
    yes, no = '{"criteria_met": true}', '{"criteria_met": false}'
    with grader([yes, yes, yes, no, QUOTA], tmp_path / "grades") as (made, requests):
        assert health.grade([item], {"1": "A"}, made, args)["accuracy"] == 1.0
        graded.compare(spec, [item], {"1": "A"}, made, args)
        graded.compare(spec, [item], {"1": "A"}, made, args)
        assert health.grade([item], {"1": "A"}, made, args)["accuracy"] == 1.0
    assert len(requests) == 4, "the first replies are kept, and nothing is asked a third time"
    assert json.loads((tmp_path / "grades" / "regraded.json").read_text()) == {"items": 1, "first": 1.0, "again": 0.4}
    with grader([yes, yes, QUOTA], tmp_path / "other") as (made, _):
        health.grade([item], {"1": "A"}, made, args)
        graded.compare(spec, [item], {"1": "A"}, made, args)
    assert not (tmp_path / "other" / "regraded.json").exists()


def test_a_conversation_without_all_its_grades_is_left_out_but_only_as_allowed() -> None:
    class Replies:
        def ask_all(self, asked: list[Any]) -> list[Any]:
            return [grading.Grade(True), grading.Grade(None), *[grading.Grade(True)] * (len(asked) - 2)]

    items = [
        {"id": str(n), "messages": [{"role": "user", "content": "Hi"}], "rubrics": [rubric(4, "a"), rubric(-4, "b")]}
        for n in range(4)
    ]
    answers = dict.fromkeys("0123", "A")
    found = health.grade(items, answers, Replies(), SimpleNamespace(grader_wait=0.0, coverage=0.75))
    assert found["n_examples"] == 3 and found["total_grader_calls"] == 6 and found["accuracy"] == 0.0
    with pytest.raises(grading.GradingIncomplete, match=r"graded 7 of 8, grading incomplete \(reply\)"):
        health.grade(items, answers, Replies(), SimpleNamespace(grader_wait=0.0, coverage=1.0))
