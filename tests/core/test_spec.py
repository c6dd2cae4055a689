"""Sweep files: every mistake is one line with file, place and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptb_tui.core.errors import ConfigError
from ptb_tui.core.spec import RunSpec, parse_sweep, read_sweep

GOOD = """
v = 1
name = "night"
tasks = ["gsm8k"]
models = ["Qwen/Qwen3-4B-Base"]
[[agents]]
agent = "claude"
config = "claude-opus-4-6[1m]"
"""


def sweep(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "night.toml"
    path.write_text(text)
    return path


def test_a_good_sweep(tmp_path: Path) -> None:
    read = read_sweep(sweep(tmp_path, GOOD + 'hours = "0.50"\n'))
    assert read.protocol == "1.2" and read.agents[0].hours == 0.5
    assert read.digest == parse_sweep(read.model_dump(mode="json"), "x").digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("hours", "hours = 0"), "hours: hours must be above zero"),
        (("hours", "hours = -1"), "hours must be above zero"),
        (("hours", 'hours = "ten"'), "plain number such as 10 or 0.5"),
        (("hours", 'hours = "1e3"'), "plain number"),
        (("hours", "hours = true"), "hours must be a number"),
        (("hours", "hours = nan"), "above zero"),
        (("hours", "hour = 3"), "hour: unknown key; did you mean `hours`?"),
        (("gpus", "gpus = -1"), "gpus: "),
        (("experiment", 'experiment = "a/b"'), "experiment: may hold"),
        (("judging", '[judging]\nengin = "rules"'), "judging.engin: unknown key; did you mean `engine`?"),
        (("judging", '[judging]\nengine = "oracle"'), "judging.engine: "),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    key, line = change
    text = f"{GOOD}\n{line}\n" if key == "judging" else f"{line}\n{GOOD}"
    path = sweep(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_sweep(path)
    message = caught.value.message
    assert words in message and str(path) in message and "\n" not in message


@pytest.mark.parametrize("config", ["", "-x", "a\nb", "..", "x" * 200, "\x1b[31m"])
def test_configs_that_cannot_be_directory_names(tmp_path: Path, config: str) -> None:
    table = {"name": "n", "tasks": ["t"], "models": ["a/b"], "agents": [{"agent": "claude", "config": config}]}
    with pytest.raises(ConfigError, match="config"):
        parse_sweep(table, "n.toml")


@pytest.mark.parametrize("config", ["a b", "x[1m]", "$(id)", ";rm", "'", '"', "*", "naïve-模型", "a:b/c"])
def test_configs_travel_as_data(config: str) -> None:
    table = {"name": "n", "tasks": ["t"], "models": ["a/b"], "agents": [{"agent": "claude", "config": config}]}
    assert parse_sweep(table, "n.toml").agents[0].config == config


def test_missing_file_and_broken_toml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_sweep(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="not TOML"):
        read_sweep(sweep(tmp_path, "= ="))


def test_a_spec_keeps_its_digest_and_unknown_keys() -> None:
    spec = RunSpec.model_validate(
        {
            "agent": "claude",
            "config": "m[1m]",
            "benchmark": "gsm8k",
            "base_model": "Qwen/Qwen3-4B-Base",
            "hours": 10,
            "protocol": {"name": "1.2", "fingerprint": "f"},
        }
    ).sealed(id=7)
    again = RunSpec.model_validate(spec.to_file() | {"later": 1})
    assert again.content_digest() != "" and again.run == "gsm8k_Qwen_Qwen3-4B-Base_7"
    assert RunSpec.model_validate(spec.to_file()).content_digest() == spec.digest
    assert spec.sealed(operator="x", created="now", bundle="b").digest == spec.digest
    assert spec.sealed(hours=5.0).digest != spec.digest
    assert spec.method == "claude_m_1m__10h"
