"""Agents that start a CLI call it as H's table says (H §2.2, §2.4–2.6); the page about adding one works."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.core.errors import ContentError
from ptb_tui.site import bundle
from tests.content.agent_stage import CONTENT, stage
from tests.content.agent_table import PROMPT, TABLE
from tests.e2e.conftest import REPOSITORY, Lab


def test_the_table_is_whole() -> None:
    scripted = {"reference", "cheat", "quitter"}
    assert set(CONTENT.names("agents")) == set(TABLE) | scripted


@pytest.mark.parametrize("name", TABLE)
def test_an_agent_calls_its_cli_as_the_table_says(tmp_path: Path, name: str) -> None:
    row, set_up = TABLE[name], stage(tmp_path, name)
    agent = set_up.agent
    assert (agent.keys, agent.trace, agent.trusted) == (row.keys, row.trace, False)
    assert agent.label != name
    set_up.statuses([3])
    done = set_up.play()
    (call,) = set_up.calls()
    assert done.returncode == 3, done.stderr
    assert call["cli"] == row.cli
    assert call["argv"] == [word.replace("{cwd}", str(set_up.task)) for word in row.argv]
    assert call["stdin"] == (PROMPT if row.stdin else "")
    if row.stdin:
        words = [*call["argv"], *call["above"]]
        assert not any("Train it" in word for word in words), "the prompt is in no command line"
    shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    path = call["env"].pop("PATH").removesuffix(f":{set_up.home}/.grok/bin" if name == "grok_cli" else "")
    assert path == str(set_up.bin)
    expected = {**set_up.given, **row.env}
    del expected["PATH"]
    assert {key: text for key, text in call["env"].items() if key not in shell} == expected
    assert not list(set_up.base.rglob("spoiled"))
    recorded = (set_up.home / "cli_version.txt").read_text().splitlines()
    assert [line.partition(": ")[0] for line in recorded] == [
        "binary", "package", "path", "version", "update", "recorded_at",
    ]  # fmt: skip
    assert recorded[0] == f"binary: {row.cli}" and recorded[3] == "version: 1.2.3 (stand-in)"
    assert "login-of" not in done.stdout + done.stderr and "value-of" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", TABLE)
def test_a_cli_that_is_not_installed_is_one_clear_line(tmp_path: Path, name: str) -> None:
    done = stage(tmp_path, name, installed=False).play()
    assert done.returncode == 127
    assert done.stderr == f"agent: the command {TABLE[name].cli} is not installed in this image\n"


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.login])
def test_a_login_that_is_missing_is_one_clear_line(tmp_path: Path, name: str) -> None:
    set_up = stage(tmp_path, name)
    (set_up.home / TABLE[name].login).write_text("")  # what is left where a bind had no source
    done = set_up.play()
    assert done.returncode == 1 and not set_up.calls()
    assert TABLE[name].login in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["glm5", "glmx", "qwen3max", "kimi_claude"])
def test_a_key_without_value_is_one_clear_line(tmp_path: Path, name: str) -> None:
    set_up = stage(tmp_path, name)
    (key,) = set_up.agent.keys
    done = set_up.play(**{key: ""})
    assert done.returncode == 1 and not set_up.calls()
    assert done.stderr == f"agent: {key} has no value\n"


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.cli == "codex"])
@pytest.mark.parametrize("present", [False, True])
def test_settings_of_codex_stand_before_every_table(tmp_path: Path, name: str, present: bool) -> None:
    set_up, row = stage(tmp_path, name), TABLE[name]
    config = set_up.home / ".codex" / "config.toml"
    if present:
        config.parent.mkdir(exist_ok=True)
        config.write_text('model_reasoning_effort = "none"\nfile_opener = "none"\n[tui]\nnotifications = false\n')
    set_up.play()
    table = tomllib.loads(config.read_text())
    assert table.get("model_reasoning_effort") == (row.effort or ("none" if present else None))
    assert table.get("forced_login_method") == ("chatgpt" if row.login else None)
    if present:
        assert table["file_opener"] == "none" and table["tui"] == {"notifications": False}
    else:
        policy = table["shell_environment_policy"]
        assert policy["inherit"] == "all" and policy["set"]["HOME"] == str(set_up.home)
        assert {"CI", "HF_HOME", "LD_LIBRARY_PATH", "PATH", "PYTHONNOUSERSITE", "VLLM_API_KEY"} <= set(policy["set"])
        assert table["projects"][f"{tmp_path}/"] == {"trust_level": "trusted"}


def test_commands_of_codex_do_not_see_the_updated_clis(tmp_path: Path) -> None:
    set_up = stage(tmp_path, "codex")
    set_up.play(PATH=f"{set_up.home}/.local/bin:{set_up.bin}")
    table = tomllib.loads((set_up.home / ".codex" / "config.toml").read_text())
    search = table["shell_environment_policy"]["set"]["PATH"].split(":")
    assert str(set_up.bin) in search and not any(".local" in folder for folder in search)


def test_opencode_finds_its_providers_in_the_task_folder(tmp_path: Path) -> None:
    set_up = stage(tmp_path, "opencode")
    set_up.play()
    settings = json.loads((set_up.task / "opencode.json").read_text())
    assert settings["permission"] == "allow"
    keys = {name: provider["options"]["apiKey"] for name, provider in settings["provider"].items()}
    assert keys == {
        "anthropic": "{env:ANTHROPIC_API_KEY}",
        "openai": "{env:OPENAI_API_KEY}",
        "opencode": "{env:OPENCODE_API_KEY}",
        "meta": "{env:MODEL_API_KEY}",
        "zai": "{env:ZAI_API_KEY}",
    }


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.again])
def test_a_session_is_taken_up_again_while_half_an_hour_is_left(tmp_path: Path, name: str) -> None:
    set_up = stage(tmp_path, name)
    set_up.timer("9:59", "9:08", "0:30", "0:29")
    done = set_up.play()
    assert done.returncode == 0, done.stderr
    calls = set_up.calls()
    assert [tuple(call["argv"]) for call in calls] == [TABLE[name].argv, TABLE[name].again, TABLE[name].again]
    assert [call["stdin"].partition(":")[0] for call in calls[1:]] == [
        "You still have 9 hours and 8 minutes",
        "You still have 0 hours and 30 minutes",
    ]
    assert all("You still" not in word for call in calls for word in (*call["argv"], *call["above"]))


@pytest.mark.parametrize(
    ("says", "calls"),
    [
        (["2:00", "Timer expired!"], 1),
        (["2:00", "0:08"], 1),
        (["2:00", "0:09"], 1),
        (["2:00", "1:09", "1:08", "0:00"], 3),
        (["10:08", "08:09", "00:29"], 2),
        (["0:29", "99:00"], 1),  # an agent that gives itself time
        (["2:00", "nothing of use", "0:29"], 2),  # an agent that spoils its timer: our own clock goes on
        (["nothing of use", "5:00"], 1),
        (["Timer expired!", "5:00"], 1),
    ],
)
def test_the_timer_ends_the_session(tmp_path: Path, says: list[str], calls: int) -> None:
    set_up = stage(tmp_path, "claude_reprompt")
    set_up.timer(*says)
    done = set_up.play()
    assert len(set_up.calls()) == calls, done.stderr
    assert done.returncode == 0


def test_a_timer_that_is_gone_leaves_one_call(tmp_path: Path) -> None:
    set_up = stage(tmp_path, "codex_xhigh_reprompt")
    (set_up.task / "timer.sh").unlink()
    done = set_up.play()
    assert len(set_up.calls()) == 1 and "timer.sh did not tell the time" in done.stderr


def test_a_cli_that_fails_at_once_is_called_a_few_times_only(tmp_path: Path) -> None:
    set_up = stage(tmp_path, "claude_reprompt")
    set_up.timer("9:59")
    set_up.statuses([*[1] * 9, 0, 7])
    done = set_up.play()
    assert len(set_up.calls()) == 9 + 1 + 10, "ten failures in a row"
    assert done.returncode == 7 and "10 calls in a row failed at once" in done.stderr
    assert set_up.sleeps() == [10, 20, 40, 80, 160, 320, *[600] * 13], "and less and less often"


def test_a_reminder_is_not_sent_by_agents_that_ask_once(tmp_path: Path) -> None:
    set_up = stage(tmp_path, "claude")
    set_up.play()
    assert len(set_up.calls()) == 1 and not set_up.sleeps()


@pytest.mark.parametrize("script", sorted((REPOSITORY / "agents").rglob("*.sh")), ids=lambda path: path.parent.name)
def test_scripts_are_correct_bash(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True, timeout=30)
    if tool := shutil.which("shellcheck"):
        subprocess.run([tool, "--shell=bash", "--exclude=SC1091,SC2034,SC2154", script], check=True, timeout=60)


def test_no_two_agents_have_the_same_script() -> None:
    texts = [path.read_text() for path in (REPOSITORY / "agents").glob("*/solve.sh") if path.parent.name in TABLE]
    assert len(texts) == 6 and len(set(texts)) == len(texts)


def test_a_bundle_holds_all_that_agents_need(tmp_path: Path) -> None:
    for name, source in bundle.manifest(CONTENT).items():
        if name.startswith("agents/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, tmp_path / name)
    for name in TABLE:
        agent, frozen = load_agent(CONTENT, name), load_agent(Content((tmp_path,)), name)
        assert [file.read_bytes() for file in (frozen.solve, *frozen.files)] == [
            file.read_bytes() for file in (agent.solve, *agent.files)
        ]
        assert frozen.env == agent.env


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a": 'extends = "a"'}, "extend each other: a → a"),
        ({"a": 'extends = "b"', "b": 'extends = "a"'}, "extend each other: a → b → a"),
        ({"a": 'without = ["HOME"]'}, "without: HOME: extends is missing"),
        ({"a": 'extends = "b"\nwithout = ["X"]', "b": '[env]\nY = "1"'}, "agent b sets no such variable"),
    ],
)
def test_mistakes_in_agent_files_are_named(tmp_path: Path, files: dict[str, str], words: str) -> None:
    for name, text in files.items():
        folder = tmp_path / "agents" / name
        folder.mkdir(parents=True)
        (folder / "agent.toml").write_text(text)
        (folder / "api_keys.json").write_text('{"allowed_api_keys": []}')
        (folder / "solve.sh").write_text("")
    with pytest.raises(ContentError, match=re.escape(words)):
        load_agent(Content((tmp_path,)), "a")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    place = Lab(tmp_path)
    yield place
    place.close()


def test_the_page_about_agents_does_what_it_says(lab: Lab) -> None:
    page = (REPOSITORY / "docs" / "adding-an-agent.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    # The stand-in benchmark in place of the demo, which needs torch.
    script = "\n".join(blocks).replace('"demo"', '"toy"').replace("local/demo-base", "local/toy-base")
    program = lab.base / "bin" / "ptb-tui"
    program.parent.mkdir()
    # `doctor` exits with 1 where, for example, this machine has no sandbox.
    program.write_text(f'#!/bin/bash\n{sys.executable} -m ptb_tui "$@" || [ "$1" = doctor ]\n')
    program.chmod(0o755)
    env = {**lab.env, "PATH": f"{program.parent}:{lab.env['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=lab.cwd, env=env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "claude_quick" in done.stdout and "mycli" in done.stdout, "doctor lists them"
    assert "1 to submit" in done.stdout
    content = Content.of((lab.cwd,))
    quick = load_agent(content, "claude_quick")
    assert quick.env["CLAUDE_CODE_EFFORT_LEVEL"] == "low" and "BASH_MAX_TIMEOUT_MS" not in quick.env
    assert load_agent(content, "mycli").solve.parent.name == "mycli"
    assert (lab.run_dir() / "final_model" / "model.safetensors").is_file()
    assert json.loads((lab.run_dir() / "metrics.json").read_text())["accuracy"] == 0.75


ENDPOINT = "http://127.0.0.1:8899/gate/v1"


def test_codex_finds_an_endpoint_in_its_settings(tmp_path: Path) -> None:
    set_up = stage(tmp_path, "codex_xhigh")
    set_up.play(PTB_ENDPOINT=ENDPOINT)
    table = tomllib.loads((set_up.home / ".codex" / "config.toml").read_text())
    assert table["model_provider"] == "endpoint" and table["model_reasoning_effort"] == "xhigh"
    assert table["model_providers"]["endpoint"] == {
        "name": "endpoint", "base_url": ENDPOINT, "env_key": "CODEX_API_KEY", "wire_api": "responses",
    }  # fmt: skip
    (call,) = set_up.calls()
    assert "PTB_ENDPOINT" not in call["env"]


def test_codex_takes_its_login_to_an_endpoint(tmp_path: Path) -> None:
    set_up = stage(tmp_path, "codex_non_api")
    set_up.play(PTB_ENDPOINT=ENDPOINT)
    table = tomllib.loads((set_up.home / ".codex" / "config.toml").read_text())
    assert table["model_providers"]["endpoint"]["requires_openai_auth"] is True
    assert "env_key" not in table["model_providers"]["endpoint"] and table["forced_login_method"] == "chatgpt"


@pytest.mark.parametrize(
    ("name", "variable"),
    [("claude_non_api", "ANTHROPIC_BASE_URL"), ("glmx", "ANTHROPIC_BASE_URL"), ("gemini", "GOOGLE_GEMINI_BASE_URL")],
)
def test_others_find_an_endpoint_in_a_variable(tmp_path: Path, name: str, variable: str) -> None:
    set_up = stage(tmp_path, name)
    set_up.play(PTB_ENDPOINT=ENDPOINT)
    (call,) = set_up.calls()
    assert call["env"][variable] == ENDPOINT and "PTB_ENDPOINT" not in call["env"]


@pytest.mark.parametrize(("config", "known"), [("zai/glm-5", True), ("mine/org/model:v1", False)])
def test_opencode_gets_an_endpoint_for_the_provider_of_its_config(tmp_path: Path, config: str, known: bool) -> None:
    set_up = stage(tmp_path, "opencode")
    set_up.play(PTB_ENDPOINT=ENDPOINT, AGENT_CONFIG=config)
    (call,) = set_up.calls()
    name, _, model = config.partition("/")
    provider = json.loads(call["env"]["OPENCODE_CONFIG_CONTENT"])["provider"]
    assert provider[name]["options"]["baseURL"] == ENDPOINT and list(provider) == [name]
    assert provider[name].get("models") == (None if known else {model: {}})
    assert provider[name]["options"].get("apiKey") == (None if known else "{env:MODEL_API_KEY}")


@pytest.mark.parametrize("config", ["glm-5", 'zai/a"b', "zai/$(id)"])
def test_opencode_refuses_a_config_that_it_would_have_to_quote(tmp_path: Path, config: str) -> None:
    set_up = stage(tmp_path, "opencode")
    done = set_up.play(PTB_ENDPOINT=ENDPOINT, AGENT_CONFIG=config)
    assert done.returncode == 1 and "is no PROVIDER/MODEL" in done.stderr and not set_up.calls()


def test_gemini_keeps_settings_that_are_there(tmp_path: Path) -> None:
    set_up = stage(tmp_path, "gemini")
    set_up.play()
    path = set_up.home / ".gemini" / "settings.json"
    assert json.loads(path.read_text()) == {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    path.write_text("{}")
    set_up.play()
    assert path.read_text() == "{}"


def test_calls_that_end_well_have_a_number_at_which_it_is_enough(tmp_path: Path) -> None:
    set_up = stage(tmp_path, "claude_reprompt")
    script = set_up.home / "agent" / "reprompt.sh"
    script.write_text(script.read_text().replace("REPROMPT_CALLS=200", "REPROMPT_CALLS=4", 1))
    set_up.timer("9:59")
    done = set_up.play()
    assert len(set_up.calls()) == 4 and "4 calls are enough, 9:59 left" in done.stderr and done.returncode == 0


def test_a_folder_of_ones_own_that_replaces_claude_breaks_no_variant(tmp_path: Path) -> None:
    own, frozen = tmp_path / "own", tmp_path / "frozen"
    folder = own / "agents" / "claude"
    folder.mkdir(parents=True)
    (folder / "api_keys.json").write_text('{"allowed_api_keys": []}')
    (folder / "solve.sh").write_text("echo mine\n")
    content = Content((own, REPOSITORY))
    for name, source in bundle.manifest(content).items():
        if name.startswith("agents/"):
            (frozen / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, frozen / name)
    for where in (content, Content((frozen,))):
        assert "_shared" not in where.names("agents")
        assert load_agent(where, "claude_non_api").solve.read_text() == "echo mine\n"
        for name in ("codex", "gemini", "opencode", "cursor_cli", "grok_cli"):
            assert "cli.sh" in {file.name for file in load_agent(where, name).files}
