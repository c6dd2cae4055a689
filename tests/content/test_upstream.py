"""A folder in the original's layout, shown in ours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ptb_tui.content.agents import load_agent
from ptb_tui.content.dialect import (
    agent_toml,
    cli_of,
    flags_of,
    hub_manifest,
    judge_toml,
    prompt_template,
    read_conf,
    task_toml,
    trace_of,
)
from ptb_tui.content.items import item_problems
from ptb_tui.content.judges import load_judge
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.content.upstream import view
from ptb_tui.core.config import read_config
from ptb_tui.core.errors import ConfigError, ContentError, NotFound
from ptb_tui.core.settings import load
from ptb_tui.judging import prompting
from ptb_tui.supplies.hub import Manifest
from tests.content.upstream_lab import CONF, ITEMS, laboratory

CLIS = {"codex": "codex", "claude": "claude", "cursor-agent": "cursor-agent"}


@pytest.fixture
def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Content:
    """The configured content of an operator who has the laboratory's folder on the content path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lab, home = laboratory(tmp_path / "lab"), tmp_path / "config" / "ptb-tui"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(f'content = ["{tmp_path / "own"}", {{ path = "{lab}", layout = "upstream" }}]\n')
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}
    return Content.configured(load(cwd=tmp_path / "nowhere", environ=environ))


def test_its_parts_are_found(content: Content, tmp_path: Path) -> None:
    assert {"lab_codex", "codex"} <= set(content.names("agents"))
    assert {"riddles", "puns", "gsm8k"} <= set(content.names("tasks"))
    assert {"rhyme_judge", "general_judge"} <= set(content.names("judges"))
    task = load_task(content, "riddles")
    assert task.label == "Riddles" and not task.file.inspect and task.final_script.name == "evaluate_final_eval.py"
    assert task.file.final.tokens_flag == "--max-new-tokens"
    assert task.test_data is not None and json.loads(task.test_data.read_text()) == ITEMS
    puns = load_task(content, "puns")  # brings no test items, and its scripts find theirs themselves
    assert puns.file.inspect and item_problems(puns) == []
    kit = load_protocol(content, "1.2").kit
    assert task.checked(kit) and not puns.checked(kit) and not task.checked(())
    assert {"rhyming.jinja", "qwen3.jinja"} <= set(content.overlay("tasks/templates"))
    assert content.file("judges/tools/reference_configs/lab_small.json")
    checker = content.file("judges/tools/contamination_check.py")
    assert checker is not None and "laboratory" not in checker.read_text()
    listed = content.file("containers/hub_manifest.json")
    assert listed is not None and [repo.id for repo in Manifest.read(listed).repos()] == ["lab/small", "lab/rhymes"]


def test_an_agent_gets_what_the_original_puts_into_its_home(content: Content, tmp_path: Path) -> None:
    agent = load_agent(content, "lab_codex")
    assert agent.trace == "codex" and agent.keys == () and not agent.credential.is_login
    assert set(agent.home) == {".codex/config.toml", "update_agent_cli.sh"}
    assert "laboratory" in agent.home[".codex/config.toml"].read_text()
    with pytest.raises(ContentError, match=rf"^{tmp_path}/lab/agents/broken/api_keys.json: allowed_api_keys"):
        load_agent(content, "broken")


def test_logins_are_read_in_place_and_never_copied(content: Content, tmp_path: Path) -> None:
    secret = tmp_path / "lab" / "agents" / "lab_codex" / "auth.json"
    secret.write_text("a secret")
    shown = Content((view(tmp_path / "lab"),), ((view(tmp_path / "lab"), tmp_path / "lab"),))
    agent = load_agent(shown, "lab_codex")
    assert agent.credential.renewal == "broker" and secret in agent.login_files
    assert not list((tmp_path / "cache").rglob("auth.json"))
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and "secret" in path.read_text()]


def test_a_judge_is_asked_in_the_laboratorys_words(content: Content, tmp_path: Path) -> None:
    judge = load_judge(content, "rhyme_judge")
    spec = judge.spec
    assert (spec.label, spec.output_id, spec.model, spec.cli_version, spec.flags) == (
        *("Rhymes", "rhymes", "some-model", "", ("rhymed",)),
    )
    facts = prompting.PromptFacts("org/base", "Riddles", "codex")
    item = prompting.Item("/evidence/solve_parsed.txt", "the trace")
    text = prompting.build(judge.prompt.read_text(), spec, facts, (item,), (), "a-nonce", "/home/x/judgement.json")
    assert text.startswith("Did the agent of org/base write its notes in rhyme?") and "OpenAI's Codex CLI" in text
    assert "{ nothing }" in text and '"rhymed": <true or false>' in text and "`/evidence/task/`" in text
    with pytest.raises(ContentError, match=rf"^{tmp_path}/lab/src/judges/broken_judge/judge.conf: JUDGE_OUTPUT_ID"):
        load_judge(content, "broken_judge")


def test_a_view_is_made_anew_when_something_changes_and_only_then(content: Content, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    first = view(lab)
    assert view(lab) == first in content.paths
    (lab / "src/eval/general/prompt.txt").write_text("Now {model}.\n")
    second = view(lab)
    assert second != first and (second / "tasks/prompts/prompt.md").read_text() == "Now {model}.\n"
    (lab / "agents/lab_codex/solve.sh").unlink()
    assert view(lab) not in (first, second) and first.is_dir(), "whoever still reads the older one can"


def test_folders_that_are_not_there_or_laid_out_otherwise(tmp_path: Path) -> None:
    assert view(tmp_path / "gone") == tmp_path / "gone"
    (tmp_path / "other").mkdir()
    with pytest.raises(ConfigError, match=r'other: layout = "upstream", but there is none of src/eval') as caught:
        view(tmp_path / "other")
    assert 'layout = "own"' in caught.value.hint
    (tmp_path / "c.toml").write_text('content = [{ path = "x", layout = "theirs" }]')
    with pytest.raises(ConfigError, match=r"c\.toml: content.*layout"):
        read_config(tmp_path / "c.toml")
    (tmp_path / "c.toml").write_text('content = [{ folder = "x" }]')
    with pytest.raises(ConfigError, match=r"c\.toml: content"):
        read_config(tmp_path / "c.toml")


def test_prompts_of_theirs() -> None:
    assert prompt_template("a \\`b\\` {model}\n\n") == "a `b` {model}\n"
    assert prompt_template("\\boxed{x} {{ok}}") == "\\boxed{{x}} {{{ok}}}\n"
    assert prompt_template("{modell}") == "{modell}\n", "looks like a mistake, and will be named as one"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("JUDGE_LABEL", r"j\.conf: line 1: not KEY"),
        ('A="1"\nJUDGE_LABEL="$HOME"', r"j\.conf: line 2: JUDGE_LABEL: nothing is evaluated"),
        ('JUDGE_LABEL="x"', r"j\.conf: JUDGE_OUTPUT_ID is missing"),
        (CONF.replace('"rhymes"', '"Rhymes!"'), r"JUDGE_OUTPUT_ID 'Rhymes!'"),
        (CONF.replace("rhymes.md", "../rhymes.md"), r"JUDGE_PROMPT_FILE is a file of this folder"),
    ],
)
def test_mistakes_in_judge_conf(text: str, said: str) -> None:
    with pytest.raises(ContentError, match=said):
        read_conf(text, "j.conf")


def test_judge_conf() -> None:
    values = read_conf(CONF, "j.conf")
    assert values["JUDGE_OUTPUT_ID"] == "rhymes" and values["JUDGE_CODEX_VERSION"] == ""
    assert read_conf(CONF.replace('"Rhymes"', "Rhymes "), "j")["JUDGE_LABEL"] == "Rhymes"
    assert flags_of("gpt5_4", "") == ("contamination", "disallowed_model")
    assert flags_of("own", "justification_b, justification_a and justification_b") == ("b", "a")
    assert 'effect = "quarantine"' in judge_toml({**values, "JUDGE_OUTPUT_ID": "ptb_lookup"}, "", "j.conf")
    with pytest.raises(ContentError, match=r"j\.conf: its prompt rhymes\.md names no field") as caught:
        judge_toml(values, "no field", "j.conf")
    assert "justification_X" in caught.value.hint


def test_agents_of_theirs() -> None:
    assert [trace_of(name) for name in ("kimi_claude", "codex_x", "glm5", "claude_codex")] == [
        *("claude", "codex", "plain", "plain"),
    ]
    assert cli_of('printf %s "$PROMPT" | codex exec --json\n# claude --print', CLIS) == "codex"
    assert cli_of("bash ~/update_agent_cli.sh claude\nclaude --print\ncodex exec", CLIS) == "claude"
    assert cli_of("echo codex; ./codex-like x", CLIS) == ""
    token = agent_toml("a", "export T=$(cat $HOME/oauth_token)", frozenset(), {}, {})
    assert 'kind = "static_token"' in token and 'found = "oauth_token"' in token
    assert "credential" not in agent_toml("a", "cat x_oauth_token", frozenset(), {}, {})
    assert 'name = "grok"' in agent_toml("a", "test -f ~/.grok/auth.json", frozenset(), {}, {})
    assert 'name = "codex"' in agent_toml("a", "forced_login_method", frozenset(), {}, {})
    assert "inspect = true" in task_toml("from inspect_evals.x import y")
    with pytest.raises(ContentError, match=r"r\.json: needs `models` and `datasets`"):
        hub_manifest("{}", "r.json")


def test_where_errors_of_a_whole_folder_are_told(content: Content, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no task 'riddle'") as caught:
        content.folder("tasks", "riddle")
    assert re.search(rf"{tmp_path}/lab/tasks\b", caught.value.message) and "cache" not in caught.value.message
