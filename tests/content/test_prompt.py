"""Prompt templates: their marks, what is filled in, and mistakes in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.content.lookup import Content
from ptb_tui.content.prompt import PromptFacts, Text, compose, named_prompt, prompt_file
from ptb_tui.content.protocols import Protocol
from ptb_tui.core.errors import ContentError

FACTS = PromptFacts("codex", "org/base", "Bench", "0.5", gpus=1, inspect=True, test_data=True, datetime="then")
PROTOCOL = Protocol(name="p", tasks=("t",), models=("org/base",), prompt="own.md")


def made(
    words: str, sections: dict[str, str] | None = None, facts: PromptFacts = FACTS, without: tuple[str, ...] = ()
) -> str:
    named = {name: Text(text, f"sections/{name}.md") for name, text in (sections or {}).items()}
    return compose(Text(words, "p.md"), named, facts, without)


def test_values_stand_in_the_place_of_their_names() -> None:
    text = made("{model} {benchmark} {num_hours} {gpus} {gpu_kind} {datetime}")
    assert text == "org/base Bench 0.5 1 Nvidia H100 then\n"
    assert made("a {{model}} b") == "a {model} b\n"
    assert made('{"text": 1} {} { model } {Model}') == '{"text": 1} {} { model } {Model}\n'


@given(st.text(alphabet="{}abmodelif #.\n", max_size=30))
def test_what_is_filled_in_is_never_read_again(name: str) -> None:
    facts = replace(FACTS, benchmark=name, base_model="{benchmark}")
    assert made("[{benchmark}|{model}]", {"agent_note": ""}, facts) == f"[{name}|{{benchmark}}]\n"


def test_sections_stand_in_the_place_of_their_names_and_leave_no_gap() -> None:
    sections = {"there": "\nsays {model}\n\n", "gone": "{if no_gpu}\nnothing\n{end}\n"}
    assert made("a\n{there}\n{gone}\nb\n\n{gone}\n\nc {gone}.", sections) == "a\nsays org/base\nb\n\nc .\n"


def test_lines_depend_on_facts() -> None:
    words = "{if one_gpu and not claude}\none\n{if inspect}\nand inspect\n{end}\n{end}\n{if no_gpu}\nnone\n{end}\nlast"
    assert made(words) == "one\nand inspect\nlast\n"
    assert made(words, facts=replace(FACTS, gpus=0)) == "none\nlast\n"
    assert made(words, facts=replace(FACTS, agent="kimi_claude")) == "last\n"


def test_rules_are_counted_below_each_heading_and_parts_can_be_left_out() -> None:
    words = "# A\n#. x\n{part second}\n#. y\n{note}\n{end}\n#. z\n## B\n#. x"
    assert made(words, {"note": "#. n"}) == "# A\n1. x\n2. y\n3. n\n4. z\n## B\n1. x\n"
    assert made(words, {"note": "#. n"}, without=("second",)) == "# A\n1. x\n2. z\n## B\n1. x\n"
    with pytest.raises(ContentError, match=r"p\.md: no \{part third\}"):
        made(words, {"note": ""}, without=("third",))
    assert made("no parts at all", without=("third",)) == "no parts at all\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fine\n{modle}", r"p\.md: line 2: nothing fills \{modle\}"),
        ("{if warm}\n{end}", r"p\.md: line 1: \{if warm\}: no fact 'warm'"),
        ("{end}", r"p\.md: line 1: \{end\} ends nothing"),
        ("{if claude}\n", r"p\.md: .* without \{end\}"),
        ("{if no_gpu}\n{modle}\n{end}", r"p\.md: line 2: nothing fills"),
        ("{if no_gpu}\nx {end}\n{end}", r"p\.md: line 2: \{end\} is not understood here"),
        ("for {if claude} only", r"p\.md: line 1: \{if claude\} is not understood here"),
        ("{part Keys}\n{end}", r"p\.md: line 1: \{part Keys\} is not understood here"),
    ],
)
def test_a_mistake_is_named_with_its_place_also_where_it_is_not_shown(words: str, said: str) -> None:
    with pytest.raises(ContentError, match=said):
        made(words)


def test_a_mistake_in_a_section_is_named_even_when_nobody_asks_for_it() -> None:
    with pytest.raises(ContentError, match=r"sections/s\.md: line 1: nothing fills \{agent_note\}"):
        made("x", {"s": "{agent_note}", "agent_note": ""})


def test_the_closing_section_ends_every_prompt_unless_it_is_named() -> None:
    assert made("a", {"agent_note": "bye {model}"}) == "a\n\nbye org/base\n"
    assert made("{agent_note}\na", {"agent_note": "hi"}) == "hi\na\n"


def test_a_variable_names_another_prompt(tmp_path: Path) -> None:
    (tmp_path / "tasks" / "prompts").mkdir(parents=True)
    for name in ("own", "mock_test", "prompt"):
        (tmp_path / "tasks" / "prompts" / f"{name}.md").write_text("x")
    content = Content((tmp_path,))
    for word in ("", "prompt", "prompt.txt", "own", " own.md "):
        assert named_prompt(content, PROTOCOL, {"POST_TRAIN_BENCH_PROMPT": word}) == "", "as the protocol says"
    assert named_prompt(content, PROTOCOL, {"POST_TRAIN_BENCH_PROMPT": "mock_test"}) == "mock_test.md"
    assert prompt_file(PROTOCOL, "mock_test.md") == "mock_test.md" and prompt_file(PROTOCOL) == "own.md"
    for word in ("nothing", "../own", "sections/x"):
        with pytest.raises(ContentError, match="POST_TRAIN_BENCH_PROMPT: no prompt") as caught:
            named_prompt(content, PROTOCOL, {"POST_TRAIN_BENCH_PROMPT": word})
        assert "mock_test" in caught.value.hint
