"""The grammar of directory names, both ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ptb_tui.core import names

DATA = Path(__file__).parents[1] / "data" / "method_names.json"
KNOWN = (
    "claude", "claude_non_api", "claude_non_api_max", "claude_reprompt", "codex", "codex_xhigh",
    "codex_xhigh_reprompt", "codex_non_api", "codex_non_api_high", "codex_non_api_xhigh", "codex_non_api_max",
    "codex_non_api_reprompt", "codex_non_api_high_reprompt", "codexhigh", "codexlow", "cursor_cli", "gemini",
    "glm5", "glmx", "grok_cli", "kimi_claude", "opencode", "qwen3max",
)  # fmt: skip


@pytest.mark.parametrize("name", json.loads(DATA.read_text()))
def test_published_names_round_trip(name: str) -> None:
    parsed = names.parse_method(name, KNOWN)
    assert parsed is not None and parsed.render() == name
    assert parsed.agent == max((agent for agent in KNOWN if name.startswith(agent + "_")), key=len)


def test_the_longest_known_agent_wins_and_the_rest_is_config() -> None:
    parsed = names.parse_method("claude_non_api_no_scheduler_claude-sonnet-5_10h_sonnet5", KNOWN)
    assert parsed == names.MethodName("claude_non_api", "no_scheduler_claude-sonnet-5", "10", 1, "_sonnet5")
    unknown = names.parse_method("mine_model-x_0.05h_8gpu_METR", KNOWN)
    assert unknown == names.MethodName("mine", "model-x", "0.05", 8, "_METR")
    assert names.parse_method("no hours here", KNOWN) is None


@given(
    st.sampled_from(KNOWN),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9.\[\]:/-]{0,20}", fullmatch=True),
    st.one_of(st.integers(1, 999).map(float), st.floats(0.001, 999)),
    st.integers(1, 64),
    st.from_regex(r"(_[A-Za-z0-9]{1,8}){0,2}", fullmatch=True),
)
def test_what_we_render_we_read(agent: str, config: str, hours: float, gpus: int, experiment: str) -> None:
    name = names.method_name(agent, config, hours, gpus, experiment)
    parsed = names.parse_method(name, KNOWN)
    assert parsed is not None and parsed.render() == name
    assume(
        not any(f"{agent}_{names.safe(config)}_".startswith(other + "_") for other in KNOWN if len(other) > len(agent))
    )
    assert parsed.agent == agent and names.parse_hours(parsed.hours) == pytest.approx(hours)


@given(st.text(max_size=60))
def test_any_text_is_a_method_or_not(name: str) -> None:
    parsed = names.parse_method(name, KNOWN)
    assert parsed is None or parsed.render() == name


@given(st.text(alphabet="abcAB_-.0123456789", max_size=40))
def test_run_names_round_trip(name: str) -> None:
    parsed = names.parse_run(name)
    assert parsed is None or parsed.render() == name


def test_run_names() -> None:
    assert names.run_name("gsm8k", "Qwen/Qwen3-4B-Base", 17001) == "gsm8k_Qwen_Qwen3-4B-Base_17001"
    parsed = names.parse_run("gsm8k_Qwen_Qwen3-4B-Base_17001")
    assert parsed is not None and parsed.regular and parsed.short_model == "Qwen3-4B-Base"
    odd = names.parse_run("gsm8k_my_org_model_7")
    assert odd is not None and not odd.regular


@pytest.mark.parametrize("text", ["", "-1", "0", "0.0", "1e3", "10h", "nan", "inf", " 1", ".5", "1.", "٣"])
def test_bad_hours(text: str) -> None:
    with pytest.raises(ValueError, match="hours"):
        names.parse_hours(text)


def test_hours_are_printed_shortest() -> None:
    assert [names.format_hours(hours) for hours in (10, 10.0, 0.05, 0.5, 1e-5, 100)] == [
        "10",
        "10",
        "0.05",
        "0.5",
        "0.00001",
        "100",
    ]
