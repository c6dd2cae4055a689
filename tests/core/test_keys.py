import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.keys import from_words, not_for_agents, policy

OPENAI, CODEX, OPENROUTER, ANTHROPIC = "OPENAI_API_KEY", "CODEX_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY"
HOST = {OPENAI: "sk-o", ANTHROPIC: "sk-a"}
ROUTER = {OPENROUTER: "sk-r", ANTHROPIC: "sk-a"}
GRADED = (OPENAI,)

# H §1.5: allow-list, keys the task requires, values on the host → what the sandbox contains
TABLE = [
    ((CODEX,), (), HOST, {CODEX: "sk-o"}),
    ((CODEX,), GRADED, HOST, {CODEX: "sk-o", OPENAI: "sk-o"}),
    ((ANTHROPIC,), (), HOST, {ANTHROPIC: "sk-a"}),
    ((ANTHROPIC,), GRADED, HOST, {ANTHROPIC: "sk-a", OPENAI: "sk-o"}),
    ((), (), HOST, {}),
    ((), GRADED, HOST, {OPENAI: "sk-o"}),
    ((ANTHROPIC,), GRADED, ROUTER, {ANTHROPIC: "sk-a", OPENAI: "", OPENROUTER: "sk-r"}),
    ((CODEX,), (), {}, {CODEX: ""}),
]


@pytest.mark.parametrize("row", TABLE)
def test_the_truth_table(row: tuple[tuple[str, ...], tuple[str, ...], dict[str, str], dict[str, str]]) -> None:
    allowed, required, host, expected = row
    found = policy(allowed, required, host)
    assert found.values(host) == expected
    assert list(found.values(host)) == list(expected)


@pytest.mark.parametrize("row", TABLE)
def test_only_the_last_row_is_no_run_to_start(
    row: tuple[tuple[str, ...], tuple[str, ...], dict[str, str], dict[str, str]],
) -> None:
    allowed, required, host, _ = row
    assert policy(allowed, required, host).missing(host) == ([CODEX] if host == {} else [])


def test_a_key_for_codex_alone_grades_nothing() -> None:
    host = {CODEX: "sk-c"}
    assert policy((CODEX,), (), host).values(host) == {CODEX: "sk-c"}
    assert policy((CODEX,), GRADED, host).missing(host) == [OPENAI]
    both = {CODEX: "sk-c", OPENAI: "sk-o"}
    assert policy((CODEX,), (), both).values(both) == {CODEX: "sk-o"}, "the renaming is unconditional"


def test_openrouter_is_given_for_graders_alone() -> None:
    assert policy((ANTHROPIC,), (), ROUTER).names == (ANTHROPIC,)
    both = {**ROUTER, OPENAI: "sk-o"}
    assert policy((ANTHROPIC,), GRADED, both).names == (ANTHROPIC, OPENAI)


THREE = ("OPENCODE_API_KEY", "ZAI_API_KEY", "MODEL_API_KEY")
BY_CONFIG = {"opencode/": "OPENCODE_API_KEY", "zai/": "ZAI_API_KEY", "meta/": "MODEL_API_KEY"}


@pytest.mark.parametrize(
    ("config", "host", "missing"),
    [
        ("zai/glm-5", {"ZAI_API_KEY": "z"}, []),
        ("zai/glm-5", {"OPENCODE_API_KEY": "o"}, ["ZAI_API_KEY"]),
        ("opencode/kimi-k2.5", {"OPENCODE_API_KEY": "o"}, []),
        ("anthropic/claude", {"MODEL_API_KEY": "m"}, []),
        ("anthropic/claude", {}, ["OPENCODE_API_KEY or ZAI_API_KEY or MODEL_API_KEY"]),
    ],
)
def test_an_agent_of_several_providers(config: str, host: dict[str, str], missing: list[str]) -> None:
    found = policy(THREE, (), host, by_config=BY_CONFIG, config=config)
    assert found.names == THREE and found.missing(host) == missing
    assert set(found.values(host)) == set(THREE), "the allow-list decides what is there, not the config"
    graded = policy(THREE, GRADED, host, by_config=BY_CONFIG, config=config)
    assert OPENAI in graded.missing(host)


NAMES = st.lists(st.sampled_from([OPENAI, CODEX, ANTHROPIC, "ZAI_API_KEY"]), max_size=4)
VALUES = st.dictionaries(st.sampled_from([OPENAI, CODEX, OPENROUTER, ANTHROPIC, "ZAI_API_KEY", "HF_TOKEN"]), st.text())


@given(NAMES, NAMES, VALUES, st.booleans())
def test_nothing_else_reaches_the_sandbox(
    allowed: list[str], required: list[str], host: dict[str, str], several: bool
) -> None:
    by_config = {"x/": allowed[0]} if several and allowed else None
    found = policy(allowed, required, host, by_config=by_config, config="y")
    assert set(found.values(host)) - {OPENROUTER} == set(allowed) | set(required)
    assert OPENROUTER not in found.names or OPENAI in required
    assert from_words(found.words()) == found


def test_openai_s_own_key_is_for_graders() -> None:
    assert not_for_agents((OPENAI, CODEX), ()) == [OPENAI]
    assert not_for_agents((OPENAI,), GRADED) == [] and not_for_agents((CODEX,), ()) == []
