"""The table of CLIs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ptb_tui.content.lookup import Content
from ptb_tui.core.errors import ContentError, UsageError
from ptb_tui.run.sources.cli import declared, table
from ptb_tui.supplies.clis import Cli, CliTable, checked_version
from tests.content.agent_table import TABLE
from tests.e2e.conftest import REPOSITORY

CONTENT = Content((REPOSITORY,))


def test_every_cli_of_an_agent_is_declared_with_its_source() -> None:
    known = table(CONTENT).cli
    assert {row.cli for row in TABLE.values()} == set(known)
    packages = {name: spec.package for name, spec in known.items() if spec.package}
    assert packages == {
        "claude": "@anthropic-ai/claude-code",
        "codex": "@openai/codex",
        "gemini": "@google/gemini-cli",
        "opencode": "opencode-ai",
    }
    assert all(spec.node for spec in known.values() if spec.package)
    assert {name for name, spec in known.items() if spec.installer} == {"cursor-agent", "grok"}


def test_variables_of_pins_are_those_of_the_original() -> None:
    assert declared(CONTENT, "claude").pin_variable == "CLAUDE_CLI_VERSION"
    assert declared(CONTENT, "cursor-agent").pin_variable == "CURSOR_AGENT_CLI_VERSION"


def test_an_unknown_cli_is_named() -> None:
    with pytest.raises(ContentError, match=r"'aider' is not in containers/clis\.toml; there are: claude, codex"):
        declared(CONTENT, "aider")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"package": "a", "installer": "https://x/y"},
        {"installer": "https://x/y"},
        {"installer": "http://elsewhere/y", "program": "bin/x"},
        {"package": "--eval"},
        {"package": "a", "binary": "../x"},
        {"package": "a", "node": "lts"},
        {"package": "a", "colour": "red"},
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        CliTable.model_validate({"cli": {"x": {"binary": "x", **wrong}}})


@pytest.mark.parametrize("text", ["", "file:../x", "--global", "http://a/b", "1 2", "^1", "a/b", "1" * 61])
def test_what_npm_would_take_for_a_place_is_no_version(text: str) -> None:
    with pytest.raises(UsageError):
        checked_version(text)


def test_a_version_is_a_version() -> None:
    assert checked_version("2.1.198") == "2.1.198" and checked_version("0.2.0-beta.1+x")
    assert Cli(binary="x", package="@a/b").version == ("--version",)
