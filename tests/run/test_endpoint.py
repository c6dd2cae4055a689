"""Which endpoint a run has, what is wrong with one, and what reaches its sandbox (design §5a, `[endpoints]`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core import settings
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import Root
from ptb_tui.core.spec import ProtocolRef, RunSpec
from ptb_tui.run.sources import Look, Ready, endpoint
from ptb_tui.sandbox.bubblewrap import PORT
from tests.e2e.conftest import CONTENT as E2E
from tests.e2e.conftest import REPOSITORY, Lab
from tests.e2e.conftest import lab as lab

CONTENT = Content((E2E, REPOSITORY))
HERE = "http://127.0.0.1:8899/x"


def look(agent: str, url: str, network: str = "gateway") -> Look:
    loaded = load_agent(CONTENT, agent)
    spec = RunSpec.model_validate({
        "agent": agent, "config": "m", "benchmark": "toy", "base_model": "local/toy-base", "hours": 1,
        "protocol": ProtocolRef(name="toynet", fingerprint="f"), "network": network,
        "endpoints": {endpoint.family(loaded): url} if url else {},
    })  # fmt: skip
    given_settings = settings.load(cwd=Path("/"), environ={"XDG_CONFIG_HOME": "/nonexistent"})
    task, protocol = load_task(CONTENT, "toy"), load_protocol(CONTENT, "toynet")
    return Look(Root(Path("/nonexistent")), spec, loaded, task, protocol, CONTENT, given_settings)


def said(agent: str, url: str, network: str = "gateway") -> list[tuple[str, bool]]:
    return [(problem.words, problem.blocks) for problem in endpoint.problems(look(agent, url, network))]


def provided(agent: str, url: str, network: str = "gateway") -> Any:
    return endpoint.provide(look(agent, url, network), cast(Ready, None))


@pytest.mark.parametrize(
    ("agent", "sweep", "site", "expected"),
    [
        ("claude", {}, {}, {}),
        ("claude", {"claude": HERE + "/"}, {}, {"claude": HERE}),
        ("claude_reprompt", {"claude": HERE}, {}, {"claude": HERE}),  # by its CLI
        ("claude_reprompt", {"claude": HERE, "claude_reprompt": "https://own"}, {}, {"claude": "https://own"}),
        ("claude", {"codex": HERE}, {"claude": "https://site"}, {"claude": "https://site"}),
        ("claude", {"claude": HERE}, {"claude": "https://site"}, {"claude": HERE}),
        ("glm5", {}, {}, {"claude": "https://api.z.ai/api/anthropic"}),  # its folder's own
        ("glmx", {}, {}, {"claude": "https://api.z.ai/api/anthropic"}),
        ("glm5", {"glm5": HERE}, {}, {"claude": HERE}),
        ("glm5", {"claude": ""}, {}, {}),  # said to be none
        ("toy", {"toy": HERE}, {}, {"toy": HERE}),  # an agent without a CLI of a known name
    ],
)
def test_the_nearest_word_wins(agent: str, sweep: dict[str, str], site: dict[str, str], expected: object) -> None:
    assert endpoint.resolve(load_agent(CONTENT, agent), sweep, site) == expected


@pytest.mark.parametrize(
    ("agent", "url", "network", "words", "blocks"),
    [
        ("claude", "ftp://host", "full", "is no URL", True),
        ("claude", "http://host/a b", "full", "is no URL", True),
        ("claude", 'http://host/"', "full", "is no URL", True),
        ("claude", "http://host:99999", "full", "port", True),
        ("claude", "http://:80", "full", "names no host", True),
        ("claude", "https://me:secret@host", "full", "keys belong into .env", True),
        ("claude", HERE, "none", "have no network", True),
        ("claude", "https://host", "none", "have no network", True),
        ("claude", "http://[::1]:8899", "gateway", "only 127.0.0.1", True),
        ("claude", f"http://127.0.0.1:{PORT}", "gateway", "is the gateway's", True),
        ("claude", "http://far.example/v1", "gateway", "unencrypted", False),
        ("cursor_cli", "https://host", "gateway", "talks to its own service alone", True),
        ("grok_cli", "https://host", "gateway", "talks to its own service alone", True),
    ],
)
def test_what_is_wrong_is_said_in_the_plan(agent: str, url: str, network: str, words: str, blocks: bool) -> None:
    ((text, blocking),) = said(agent, url, network)
    assert words in text and blocking is blocks
    assert "secret" not in text or "me:secret" in url


@pytest.mark.parametrize(
    ("url", "network"),
    [(HERE, "gateway"), (HERE, "full"), ("http://localhost:1/v1", "gateway"), ("https://far.example", "gateway")],
)
def test_nothing_is_wrong(url: str, network: str) -> None:
    assert said("claude", url, network) == []


@pytest.mark.parametrize(
    ("url", "network", "reach"),
    [
        (HERE, "gateway", (8899,)),
        ("http://localhost", "gateway", (80,)),
        ("https://127.0.0.1/v1", "gateway", (443,)),
        (HERE, "full", ()),
        ("https://far.example:8443/v1", "gateway", ()),
    ],
)
def test_a_server_of_this_machine_is_reached_through_the_gateway(url: str, network: str, reach: object) -> None:
    found = provided("codex", url, network)
    assert found.env == {"PTB_ENDPOINT": url} and found.reach == reach and found.facts["url"] == url


def test_without_an_endpoint_there_is_nothing() -> None:
    found = provided("claude", "")
    assert not found.env and not found.reach and not found.facts and not said("claude", "")
    with pytest.raises(StepError):
        provided("claude", "nonsense")


def test_a_key_that_names_nobody() -> None:
    (problem,) = endpoint.unknown({"clade": HERE, "claude": HERE, "codex_xhigh": HERE}, CONTENT, "[endpoints]")
    assert "'clade'" in problem.words and "'claude'" in problem.remedy
    assert endpoint.unknown({}, CONTENT, "") == []


@given(st.text(max_size=80))
def test_any_text_is_a_url_or_a_problem(text: str) -> None:
    blocked = any(blocks for _, blocks in said("codex", text))
    if not text:
        return
    if blocked:
        assert len(said("codex", text)) == 1
    else:
        assert provided("codex", text).env["PTB_ENDPOINT"] == text
        assert not set(text) & set("\"'\\ \n$`")


def test_a_site_names_endpoints_and_the_plan_shows_them(lab: Lab) -> None:
    config = lab.base / "config" / "ptb-tui" / "config.toml"
    config.write_text(config.read_text() + f'[sites.local.endpoints]\ntoy = "{HERE}"\n')
    sweep = lab.sweep("x", protocol="toynet")

    def planned() -> str:
        events = lab.json("--batch", sweep, "--dry-run", rc=None)
        (cell,) = next(event["cells"] for event in events if event.get("event") == "plan")
        return str(cell["endpoints"])

    assert planned() == str({"toy": HERE})
    assert f"toy → {HERE}" in lab.run("--batch", sweep, "--dry-run")
    with open(sweep, "a", encoding="utf-8") as file:
        file.write('[endpoints]\ntoy = "https://other.example/v1"\n')
    assert planned() == str({"toy": "https://other.example/v1"})
