"""Prompts of judges: everything filled, nothing of the agent's in them, one hash for all runs (E §3.3, §9.12)."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.errors import ContentError
from ptb_tui.judging.prompting import Item, PromptFacts, build, fill, harness, prompt_hash
from tests.judging.specs import JUDGES, NAMES, spec

FACTS = PromptFacts("org/Base-4B", "GSM8K", "claude_reprompt", "claude-opus", ("good/set",), ("bad/set",), True)
ITEMS = (Item("/evidence/task", "the task folder"), Item("/evidence/solve_parsed.txt", "the trace"))
PLACE = "/home/ben/judge/judgement.json"


def template(name: str) -> str:
    return (JUDGES / name / "prompt.md").read_text()


def made(name: str, facts: PromptFacts = FACTS) -> str:
    return build(template(name), spec(name), facts, ITEMS, ("test data",), "n0nce", PLACE)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("agent", ["codex_xhigh", "claude", "gemini", "opencode", ""])
@pytest.mark.parametrize("graded", [False, True])
def test_no_placeholder_is_left(name: str, agent: str, graded: bool) -> None:
    text = made(name, PromptFacts("org/Base-4B", "GSM8K", agent, "c" if agent else "", graded=graded))
    assert not re.search(r"\{[a-z_]+\}", text) and "\n\n\n" not in text
    assert "org/Base-4B" in text and "GSM8K" in text and PLACE in text and "no test data" in text
    assert "/evidence/solve_parsed.txt" in text and "never an instruction" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_shape_that_is_asked_for_is_the_shape_that_is_read(name: str) -> None:
    block = re.search(r"\n    \{\n(.*?)\n    \}\n", made(name), re.S)
    assert block is not None
    example = "{" + block[1].replace("<true or false>", "false") + "}"
    assert set(json.loads(example)) == {"nonce", *spec(name).fields()}


def test_what_only_some_benchmarks_need() -> None:
    hosted, plain = FACTS, PromptFacts("m", "b", "claude")
    assert "evaluation_code/" in made("api_usage_judge", hosted)
    assert "evaluation_code/" not in made("api_usage_judge", plain)
    assert "HTTP 402" in made("general_judge", hosted) and "HTTP 402" not in made("general_judge", plain)
    data = made("data_contamination_judge")
    assert "- good/set" in data and "- bad/set" in data
    assert "none is named" in made("data_contamination_judge", plain)


def test_the_harness_clause_names_the_agent_by_its_family() -> None:
    said = {name: harness(PromptFacts("m", "b", name, "x")) for name in ("codexlow", "claude", "gemini", "glm5", "")}
    assert "Codex CLI" in said["codexlow"] and "Claude Code" in said["claude"] and "Gemini CLI" in said["gemini"]
    assert "`glm5`" in said["glm5"] and "`x`" in said["glm5"] and "`x`" not in said[""]
    assert all(text.startswith("- ") and "\n" not in text for text in said.values())
    assert "smaller models" in said["claude"], "models that the CLI itself uses"


def test_wrong_templates() -> None:
    with pytest.raises(ContentError, match="nothing fills"):
        build("{evidence} {verdict} {modle}", spec(NAMES[0]), FACTS, (), (), "n", PLACE)
    with pytest.raises(ContentError, match="lacks"):
        build("{evidence}", spec(NAMES[0]), FACTS, (), (), "n", PLACE)


@given(st.text(), st.text())
def test_filled_in_text_is_never_read_again(model: str, item: str) -> None:
    facts = PromptFacts(model + "{verdict}", "{evidence}", allowed=("{model}",))
    text = build("{model}|{evidence}|{verdict}", spec(NAMES[1]), facts, (Item(item, "{nonce}"),), (), "n", PLACE)
    assert text.startswith(model + "{verdict}|") and text.count(f"write one file, `{PLACE}`") >= 1


@given(st.text(alphabet="{}abc_\n "))
def test_any_template_is_filled_or_refused(body: str) -> None:
    try:
        text = fill("{evidence}{verdict}" + body, {"evidence": "E", "verdict": "V", "a": "A", "b": ""})
    except ContentError:
        return
    assert text.startswith("EV")


def test_the_hash_is_that_of_the_words() -> None:
    name = NAMES[0]
    assert prompt_hash(template(name), spec(name)) == prompt_hash(template(name), spec(name))
    others = {prompt_hash(template(name) + "!", spec(name)), prompt_hash(template(NAMES[1]), spec(NAMES[1]))}
    assert prompt_hash(template(name), spec(name)) not in others and len(others) == 2
