"""What measuring needs of a site, said when a run is planned, and what of it an agent gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ptb_tui.content.tasks import load_task
from ptb_tui.core.errors import StepError
from ptb_tui.run.sources import Look, Provision, Ready, measuring
from ptb_tui.run.steps import answer_box
from tests.run.test_endpoint import CONTENT
from tests.run.test_endpoint import look as plain

KEY = {"OPENAI_API_KEY": "sk-1234567890"}
HERE = "http://127.0.0.1:8899/v1"


def look(task: str, url: str = "", network: str = "gateway", **values: str) -> Look:
    found = plain("toy", "", network)
    spec = found.spec.model_copy(update={"benchmark": task, "endpoints": {"grader": url} if url else {}})
    return replace(
        found,
        spec=spec,
        task=load_task(CONTENT, task, Path("/nonexistent")),
        settings=replace(found.settings, values={**KEY, **values}),
    )


def said(found: Look) -> list[tuple[str, bool]]:
    return [(problem.words, problem.blocks) for problem in measuring.problems(found)]


def provided(found: Look) -> Any:
    return measuring.provide(found, cast(Ready, None))


def test_a_task_without_a_grader_needs_and_gets_nothing() -> None:
    assert said(look("gsm8k", HERE)) == [] and provided(look("gsm8k", HERE)) == Provision()


def test_the_providers_own_address_is_recorded_and_nothing_else() -> None:
    found = provided(look("healthbench"))
    assert said(look("healthbench")) == [] and not found.env and not found.reach
    assert found.facts == {"url": "https://api.openai.com/v1", "key": "OPENAI_API_KEY"}


def test_an_agent_reaches_the_same_grader_as_the_final_evaluation() -> None:
    found = provided(look("healthbench", HERE))
    assert found.env == {"PTB_GRADER_URL": HERE} and found.reach == (8899,) and found.facts["url"] == HERE
    assert provided(look("healthbench", HERE, "full")).reach == (), "the host's loopback is its own"
    assert provided(look("healthbench", OPENAI_BASE_URL="https://a.org/v1")).env == {
        "PTB_GRADER_URL": "https://a.org/v1"
    }


@pytest.mark.parametrize(
    ("url", "network", "words", "blocks"),
    [
        ("ftp://a/", "gateway", "the grader's endpoint 'ftp://a' is no URL", True),
        ("http://a.org/v1", "gateway", "the grader's key crosses the network unencrypted", False),
        ("", "none", "their own evaluate.py cannot grade", False),
    ],
)
def test_what_stands_in_the_way(url: str, network: str, words: str, blocks: bool) -> None:
    ((found, stops),) = said(look("healthbench", url, network))
    assert words in found and stops is blocks


def test_a_missing_key_is_left_to_the_agents_keys() -> None:
    found = look("healthbench", OPENAI_API_KEY="")
    assert said(found) == [] and provided(found) == Provision()


def test_a_site_that_cannot_run_answers_apart_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Any:
        raise StepError("the sandbox for answers did not start: no", cause="sandbox", hint="namespaces")

    assert said(look("humaneval")) == []
    measuring._refused.cache_clear()
    monkeypatch.setattr(answer_box, "beside", refuse)
    ((words, stops),) = said(look("humaneval"))
    assert "did not start: no" in words and stops
    with_image = look("humaneval")
    with_image = replace(with_image, spec=with_image.spec.model_copy(update={"images": {"evaluation": "x.sif"}}))
    assert said(with_image) == [], "over an image the server has a container"
    measuring._refused.cache_clear()
