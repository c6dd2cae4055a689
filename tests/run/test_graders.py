"""Which grader a task has, and the phases of its final evaluation (E §1.5.7, §8.3 (27))."""

from dataclasses import replace
from pathlib import Path

import pytest

from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import Task, TaskFile, load_task
from ptb_tui.core.errors import ConfigError, StepError
from ptb_tui.run import graders
from ptb_tui.run.graders import VARIABLE, grader_of
from ptb_tui.run.steps.phases import Phase, phases_of
from tests.tasks.loading import REPO

OPENAI = ("OPENAI_API_KEY",)
KEY = {"OPENAI_API_KEY": "a"}
ROUTER = {"OPENROUTER_API_KEY": "b"}


@pytest.mark.parametrize(
    ("values", "key", "url", "allow", "reach"),
    [
        (KEY, "OPENAI_API_KEY", "https://api.openai.com/v1", "api.openai.com:443", ()),
        (KEY | ROUTER, "OPENAI_API_KEY", "https://api.openai.com/v1", "api.openai.com:443", ()),
        (ROUTER, "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "openrouter.ai:443", ()),
        (KEY | {"OPENAI_BASE_URL": "https://a.org:8/v1/"}, "OPENAI_API_KEY", "https://a.org:8/v1", "a.org:8", ()),
        (ROUTER | {"OPENROUTER_BASE_URL": "http://b.org"}, "OPENROUTER_API_KEY", "http://b.org", "b.org:80", ()),
        (
            KEY | {"OPENAI_BASE_URL": "https://a.org", VARIABLE: "http://localhost:9/v1"},
            *("OPENAI_API_KEY", "http://localhost:9/v1", "127.0.0.1:9", (9,)),
        ),
        (KEY | {VARIABLE: "http://[::2]:9/v1"}, "OPENAI_API_KEY", "http://[::2]:9/v1", "[::2]:9", ()),
    ],
)
def test_the_grader_follows_keys_and_addresses(
    values: dict[str, str], key: str, url: str, allow: str, reach: tuple[int, ...]
) -> None:
    assert grader_of(OPENAI, values) == graders.Grader(key, url, allow, reach)


def test_no_grader_where_none_is_needed_and_none_without_a_key() -> None:
    assert grader_of((), KEY) is None
    with pytest.raises(StepError, match="OPENAI_API_KEY or OPENROUTER_API_KEY") as caught:
        grader_of(OPENAI, {"OPENAI_API_KEY": ""})
    assert caught.value.cause == "credential"


@pytest.mark.parametrize(
    "url", ["ftp://a/", "a.org", "http://", "http://a:0/", "http://a:99999/", "http://k@a/", "http://127.0.0.1:3128/v1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="grader's endpoint"):
        grader_of(OPENAI, KEY | {VARIABLE: url})


def test_the_endpoints_of_a_run_name_the_grader() -> None:
    assert graders.named({"claude": "x"}, {"grader": " http://a/v1/ "}) == {"grader": "http://a/v1"}
    assert graders.named({"grader": ""}, {"grader": "http://a"}) == {}, "a sweep can take the site's away"
    assert graders.with_endpoint(KEY, {"grader": "http://a"})[VARIABLE] == "http://a"
    assert graders.with_endpoint(KEY, {})[VARIABLE] == ""


def task(name: str) -> Task:
    return load_task(Content.of([REPO]), name, Path("/nonexistent"))


@pytest.mark.parametrize("name", ["arenahardwriting", "healthbench"])
def test_model_and_key_are_never_in_one_phase(name: str) -> None:
    generate, grade = phases_of(task(name), KEY | ROUTER)
    assert (generate.model, generate.network, generate.keys, generate.allow) == (True, "none", (), ())
    assert generate.arguments == ("--generate-only",) and generate.once and generate.keep == ("outputs/answers.jsonl",)
    assert (grade.model, grade.network, grade.keys) == (False, "gateway", ("OPENAI_API_KEY",))
    assert grade.allow == ("api.openai.com:443",) and grade.cache == ("grades",)
    assert grade.arguments == ("--skip-generation", "--grades-dir", "grades")


def test_what_the_task_says_about_grading_reaches_the_script() -> None:
    found = replace(
        task("arenahardwriting"), file=TaskFile.model_validate({"grading": {"regrade": 25, "coverage": 0.9}})
    )
    assert phases_of(found, KEY)[1].arguments[-4:] == ("--coverage", "0.9", "--regrade", "25")


def test_humaneval_has_an_answer_server_beside_it_and_others_are_plain() -> None:
    (phase,) = phases_of(task("humaneval"), {})
    assert phase.beside is not None and phase.network == "none" and not phase.keys
    assert phases_of(task("gsm8k"), {}) == (Phase(),)
