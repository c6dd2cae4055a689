"""What the chat templates render (E §1.6), and which one a run takes."""

import json
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
import pytest

from tests.tasks.loading import TASKS, load

templates = load("ptb_templates")
USER: list[dict[str, Any]] = [{"role": "user", "content": "Hello?"}]
SYSTEM: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, *USER]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
CALL: dict[str, Any] = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
DIALOGUE: list[dict[str, Any]] = [
    *USER,
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHi."},
    {"role": "user", "content": "Add."},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "3"},
    {"role": "tool", "content": "4"},
]


def refuse(words: str) -> None:
    raise jinja2.TemplateError(words)


def render(name: str, messages: list[dict[str, Any]], **more: Any) -> str:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = json.dumps
    environment.globals.update(raise_exception=refuse, strftime_now=lambda _: pytest.fail("asks for the date"))
    template = environment.from_string((TASKS / "templates" / f"{name}.jinja").read_text())
    more.setdefault("add_generation_prompt", True)
    return template.render(messages=messages, bos_token="<bos>", **more)


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "gemma3_tool_calling", "smollm"])
def test_a_prompt_ends_where_the_models_turn_begins(name: str) -> None:
    opened = render(name, SYSTEM)
    assert opened.endswith(("<|im_start|>assistant\n", "<start_of_turn>model\n"))
    assert opened.startswith(render(name, SYSTEM, add_generation_prompt=False))
    assert "Hello?" in opened and "Be brief." in opened


def test_qwen3_strips_reasoning_of_earlier_turns_and_can_switch_it_off() -> None:
    text = render("qwen3", DIALOGUE, tools=TOOLS)
    assert "hm" not in text and "<|im_start|>assistant\nHi.<|im_end|>" in text
    assert text.startswith("<|im_start|>system\n") and json.dumps(TOOLS[0]) in text
    assert render("qwen3", USER, enable_thinking=False).endswith("assistant\n<think>\n\n</think>\n\n")
    assert "<think>" not in render("qwen3", USER)
    assert render("qwen3", USER).startswith("<|im_start|>user\nHello?<|im_end|>\n"), "no system turn of its own"


def test_gemma3_folds_the_system_text_into_the_first_user_turn() -> None:
    assert render("gemma3", SYSTEM) == (
        "<bos><start_of_turn>user\nBe brief.\n\nHello?<end_of_turn>\n<start_of_turn>model\n"
    )
    parts = [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}]
    spoken = [{"role": "user", "content": [{"type": "text", "text": " Hello? "}]}]
    assert render("gemma3", [*parts, *spoken]) == render("gemma3", SYSTEM)
    said = render("gemma3", [*USER, {"role": "assistant", "content": "Hi."}], add_generation_prompt=False)
    assert said.endswith("<start_of_turn>model\nHi.<end_of_turn>\n")


@pytest.mark.parametrize(
    "roles", [("user", "user"), ("assistant",), ("user", "assistant", "assistant"), ("user", "tool")]
)
def test_gemma3_insists_on_taking_turns(roles: tuple[str, ...]) -> None:
    with pytest.raises(jinja2.TemplateError, match="alternate"):
        render("gemma3", [{"role": role, "content": "x"} for role in roles])


@pytest.mark.parametrize("name", ["gemma3_tool_calling", "qwen3", "smollm"])
def test_tools_calls_and_results(name: str) -> None:
    text = render(name, DIALOGUE, tools=TOOLS)
    head, _, rest = text.partition("</tools>")
    assert json.dumps(TOOLS[0]) in head.partition("<tools>")[2]
    assert '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>' in rest
    assert "<tool_response>\n3\n</tool_response>" in rest
    quoted = [{**DIALOGUE[3], "tool_calls": [{"function": {"name": "add", "arguments": '{"a": 1}'}}]}]
    assert '{"name": "add", "arguments": {"a": 1}}' in render(name, [*USER, *quoted])


def test_gemma3_with_tools_has_a_system_turn_and_one_turn_for_all_results() -> None:
    text = render("gemma3_tool_calling", DIALOGUE, tools=TOOLS)
    assert text.startswith("<bos><start_of_turn>system\n")
    results = (
        "<start_of_turn>user\n<tool_response>\n3\n</tool_response>\n<tool_response>\n4\n</tool_response><end_of_turn>"
    )
    assert results in text
    assert "<start_of_turn>system" not in render("gemma3_tool_calling", USER)


def test_smollm_always_has_metadata_with_a_fixed_date() -> None:
    text = render("smollm", USER)
    assert text.startswith("<|im_start|>system\n") and "Knowledge Cutoff Date: June 2025" in text
    assert "Today Date: 01 July 2025" in text and "Reasoning Mode: /think\n" in text


@pytest.mark.parametrize("off", [{"enable_thinking": False}, {}])
def test_smollm_without_reasoning(off: dict[str, Any]) -> None:
    messages = USER if off else [{"role": "system", "content": "Be brief. /no_think"}, *USER]
    text = render("smollm", messages, **off)
    assert "Reasoning Mode: /no_think\n" in text and text.endswith("<think>\n\n</think>\n")
    assert text.count("/no_think") == 1


@pytest.mark.parametrize("name", ["qwen", "llama", "gemma", "smollm"])
@pytest.mark.parametrize(
    ("base", "plain", "tools", "parser"),
    [
        ("Qwen/Qwen3-4B-Base", "qwen3.jinja", "qwen3.jinja", "hermes"),
        ("HuggingFaceTB/SmolLM3-3B-Base", "smollm.jinja", "smollm.jinja", "hermes"),
        ("google/gemma-3-4b-pt", "gemma3.jinja", "gemma3_tool_calling.jinja", "hermes"),
    ],
)
def test_the_template_is_the_base_models(
    tmp_path: Path, name: str, base: str, plain: str, tools: str, parser: str
) -> None:
    folder = tmp_path / f"{name}max_results" / "final_model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"architectures": [f"{name.title()}ForCausalLM"]}))
    environ = {"PTB_BASE_MODEL": base}
    assert templates.template_name(str(folder), environ) == plain
    assert templates.template_name(str(folder), environ, tools=True) == tools
    assert templates.tool_parser(str(folder), environ) == parser
    assert (TASKS / "templates" / plain).is_file() and (TASKS / "templates" / tools).is_file()


def test_llamas_tool_calls_are_read_by_their_own_parser(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    assert templates.tool_parser(str(tmp_path), {}) == "llama3_json"
