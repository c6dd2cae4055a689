"""What a plan says about logins, and what a run that is prepared gets."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core import settings
from ptb_tui.core.credential import CODEX_JUDGE
from ptb_tui.core.errors import ContentError, StepError
from ptb_tui.core.layout import Root
from ptb_tui.core.spec import JudgePlan, ProtocolRef, RunSpec
from ptb_tui.run import returning
from ptb_tui.run.sources import Look, Ready, login
from ptb_tui.run.sources.login import for_network, judge_login, of_spec, problems, provide
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.sandbox.process import Process
from ptb_tui.supplies import credentials
from ptb_tui.supplies.leases import Lease
from ptb_tui.supplies.logins import PLACEHOLDER
from tests.supplies.vendor import codex_login, jwt

CONTENT = Content.of()


class Site:
    """A configuration folder of its own, and looks at runs of shipped agents."""

    def __init__(self, base: Path) -> None:
        self.base, self.config = base, base / "config" / "ptb-tui"
        self.config.mkdir(parents=True)

    def look(self, agent: str, *, engine: str = "rules", values: dict[str, str] | None = None, run: int = 7) -> Look:
        loaded = load_agent(CONTENT, agent)
        loaded = replace(loaded, login_files=tuple(self.base / "beside" / f.name for f in loaded.login_files))
        judges = (JudgePlan.model_validate({"judge": "general_judge", "engine": engine}),)
        protocol = ProtocolRef(name="1.2", fingerprint="f")
        spec = RunSpec(
            id=run, agent=agent, config="some-model", benchmark="gsm8k", base_model="Qwen/Qwen3-4B-Base", hours=1,
            protocol=protocol, judges=judges, network="gateway", **of_spec(loaded, None),
        )  # fmt: skip
        found = settings.load(cwd=self.base, environ={"XDG_CONFIG_HOME": str(self.base / "config"), **(values or {})})
        root = Root(self.base / "results")
        return Look(root, spec, loaded, load_task(CONTENT, "demo"), load_protocol(CONTENT, "demo"), CONTENT, found)

    def put(self, use: Any, data: bytes) -> Path:
        place = credentials.own_place(self.config, use)
        credentials.keep(self.config, place, data)
        return place

    def ready(self, name: str = "one", sandbox: Any = None) -> Ready:
        scratch = self.base / "scratch" / name
        (scratch / "home").mkdir(parents=True)
        return Ready(scratch, sandbox or Bubblewrap())


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Site(tmp_path)


def auth(n: int = 1, exp: float = 3600.0) -> bytes:
    now = time.time()
    access = jwt(iat=int(now - 5000 + n), exp=int(now + exp), n=n)
    return json.dumps(codex_login(access, f"refresh-token-number-{n}")).encode()


def words(look: Look) -> list[tuple[str, bool]]:
    return [(problem.words, problem.blocks) for problem in problems(look)]


@pytest.mark.parametrize("agent", ["codex_non_api_high", "claude_non_api_max", "cursor_cli", "grok_cli"])
def test_every_agent_with_a_login_says_that_it_is_missing(site: Site, agent: str) -> None:
    (problem,) = problems(site.look(agent))
    assert problem.blocks and "there is no login" in problem.words
    assert problem.remedy == f"ptb-tui credentials login {load_agent(CONTENT, agent).credential.name}"
    with pytest.raises(StepError) as caught:
        provide(site.look(agent), site.ready())
    assert caught.value.cause == "credential"


def test_an_agent_with_keys_needs_no_login(site: Site) -> None:
    look = site.look("claude")
    assert words(look) == [] and look.spec.credential == "ANTHROPIC_API_KEY"
    assert provide(look, site.ready()).notes == ("API keys: ANTHROPIC_API_KEY",)
    assert provide(site.look("quitter"), site.ready("two")).notes == ("API keys: <none>",)


def test_what_an_agent_can_do_with_a_login_is_said(site: Site) -> None:
    for agent, said in (("cursor_cli", "one run at a time"), ("claude_non_api", "can read the token")):
        site.put(load_agent(CONTENT, agent).credential, auth() if agent == "cursor_cli" else b"sk-ant-oat01-abcdef")
        ((text, blocks),) = words(site.look(agent))
        assert said in text and not blocks


def test_an_ended_access_token_is_no_matter_while_it_can_be_renewed(site: Site) -> None:
    use = load_agent(CONTENT, "codex_non_api").credential
    place = site.put(use, auth(exp=-60))
    assert words(site.look("codex_non_api")) == []
    data = json.loads(auth(exp=-60))
    data["tokens"]["refresh_token"] = ""
    site.put(use, json.dumps(data).encode())
    ((text, blocks),) = words(site.look("codex_non_api"))
    assert blocks and "ended" in text
    site.put(use, auth())
    found = credentials.read(place)
    assert found is not None
    credentials.note_refusal(credentials.state_stem(site.config, place), found, "401 refresh_token_expired")
    ((text, blocks),) = words(site.look("codex_non_api"))
    assert blocks and "can no longer be renewed" in text
    site.put(use, auth(2))
    assert words(site.look("codex_non_api")) == [], "somebody signed in"


def test_judges_need_a_login_of_their_own(site: Site) -> None:
    ((text, blocks),) = words(site.look("claude", engine="codex"))
    assert blocks and text.startswith("for the judges, there is no login codex-judge")
    site.put(CODEX_JUDGE, auth())
    assert words(site.look("claude", engine="codex")) == []
    site.put(load_agent(CONTENT, "codex_non_api").credential, auth())
    ((text, blocks),) = words(site.look("codex_non_api", engine="codex"))
    assert not blocks and "the judges use the agents' login" in text
    site.put(CODEX_JUDGE, auth(2))
    assert words(site.look("codex_non_api", engine="codex")) == []


def test_a_brokered_login_for_a_run_and_for_a_judge(site: Site) -> None:
    look = site.look("codex_non_api", values={"POST_TRAIN_BENCH_TOKEN_URL_CODEX": "http://127.0.0.1:1/t"})
    site.put(look.agent.credential, auth())
    site.put(CODEX_JUDGE, auth(2))
    ready, other = site.ready(), site.ready("judge")
    run = provide(look, ready)
    judge = judge_login("general_judge", CODEX_JUDGE, other, "gateway", look.settings.values, look.root, look.spec)
    for given, place, n in ((run, ready, 1), (judge, other, 2)):
        broker = given.companion["broker"]
        assert given.reach == (broker["port"],) and not broker["listen"] and len(broker["secret"]) > 32
        url = f"http://127.0.0.1:{broker['port']}{broker['secret']}"
        assert given.env == dict.fromkeys(("CODEX_REFRESH_TOKEN_URL_OVERRIDE", "CODEX_REVOKE_TOKEN_URL_OVERRIDE"), url)
        assert broker["token_url"] == "http://127.0.0.1:1/t"
        file = place.home / ".codex" / "auth.json"
        assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
        assert json.loads(file.read_bytes())["tokens"]["refresh_token"].startswith(PLACEHOLDER)
        everything = b"".join(path.read_bytes() for path in place.scratch.rglob("*") if path.is_file())
        assert f"refresh-token-number-{n}".encode() not in everything + repr(given).encode()
        secrets = json.loads((place.scratch / "secrets.json").read_text())["secrets"]
        assert json.loads(file.read_bytes())["tokens"]["access_token"] in secrets.values()
    assert run.companion["broker"]["secret"] != judge.companion["broker"]["secret"]
    opened = for_network(run.companion, "open")
    assert opened["broker"]["listen"] and for_network(run.companion, "gateway") == run.companion
    assert for_network({}, "open") == {}


def test_without_a_network_of_its_own_the_broker_listens_on_the_host_s_loopback(site: Site) -> None:
    look = site.look("codex_non_api")
    site.put(look.agent.credential, auth())
    given = provide(look, site.ready("p", Process()))
    assert given.reach == () and given.companion["broker"]["listen"]
    nowhere = replace(look, spec=look.spec.model_copy(update={"network": "none"}))
    given = provide(nowhere, site.ready("n"))
    assert given.companion == {} and given.env == {} and "cannot be renewed" in given.notes[-1]


def test_an_exclusive_login_is_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "LOOK_S", 0.02)
    mine = auth()
    site.put(load_agent(CONTENT, "grok_cli").credential, mine)
    look, second = site.look("grok_cli"), site.look("grok_cli", run=8)
    assert look.spec.per_credential == 1
    ready, other = site.ready("one"), site.ready("two")
    monkeypatch.setattr(returning, "over", lambda held: False)  # the first run is under way
    provide(look, ready)
    assert (ready.home / ".grok" / "auth.json").read_bytes() == mine
    stem = credentials.state_stem(site.config, credentials.own_place(site.config, look.agent.credential))
    assert not returning.free_for(stem, look.root, 8) and returning.free_for(stem, look.root, 7)
    provide(look, ready)  # prepared again after a crash: it is its own
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(provide, second, other)
        newer = auth(2)
        (ready.home / ".grok" / "auth.json").write_bytes(newer)
        assert not waiting.done()
        assert returning.take_back(ready.scratch) == {"credential_returned": "grok"}
        assert returning.take_back(ready.scratch) == {"credential_returned": "grok"}, "asked again"
        waiting.result(30)
    assert (other.home / ".grok" / "auth.json").read_bytes() == newer, "the second gets what the first brought back"
    assert stem.with_name(f"{stem.name}.before").stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(login, "WAIT_S", 0.0)
    with pytest.raises(StepError, match="still with run 8"):
        provide(site.look("grok_cli", run=9), site.ready("three"))
    with pytest.raises(StepError, match="exclusive"):
        judge_login("j", look.agent.credential, other, "gateway", {}, look.root, look.spec)


def test_a_lock_of_a_run_that_is_gone_is_free(tmp_path: Path) -> None:
    stem = tmp_path / "locks" / "x"
    assert Lease(stem).take({"root": str(tmp_path / "elsewhere"), "run": 1}, 60)
    assert not returning.over(Lease(stem).look()), "a root that cannot be seen says nothing"
    (tmp_path / "elsewhere" / "_ptb").mkdir(parents=True)
    assert returning.over(Lease(stem).look()), "no such run there"
    assert not returning.over(Lease(tmp_path / "y").look())


def said_elsewhere(stem: Path, **more: Any) -> None:
    """A lock as another machine wrote it, which shares our home."""
    held = Lease(stem).look()
    said = {**json.loads(stem.with_name(f"{stem.name}.{held.number:06d}").read_text()), "host": "elsewhere", **more}
    stem.with_name(f"{stem.name}.{held.number:06d}").write_text(json.dumps(said))


def test_a_root_of_the_same_path_on_another_machine_says_nothing(tmp_path: Path) -> None:
    """A home that machines share, results that lie on a disk of each: 7 there is not 7 here."""
    root, stem = Root(tmp_path / "results"), tmp_path / "locks" / "x"
    spec = root.queued(7).spec
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"created": "2026-01-01T10:00:00Z", "method": "m", "run": "r_7"}))
    mine = returning.owner(root, 7)
    assert Lease(stem).take(mine, 60) and returning.is_mine(Lease(stem).look(), root, 7)
    said_elsewhere(stem)
    assert returning.is_mine(Lease(stem).look(), root, 7), "results that machines share: it is the same run"
    said_elsewhere(stem, created="2026-01-01T09:59:59Z")
    assert not returning.is_mine(Lease(stem).look(), root, 7) and not returning.over(Lease(stem).look())
    spec.unlink()
    assert not returning.over(Lease(stem).look()), "no such run here, which says nothing of one there"
    assert not returning.free_for(stem, root, 7)
    ended = root.path / "m" / "r_7" / ".ptb" / "spec.json"
    ended.parent.mkdir(parents=True)
    ended.write_text(json.dumps({"created": "2026-01-01T10:00:00Z"}))
    said_elsewhere(stem, created="2026-01-01T10:00:00Z")
    assert returning.over(Lease(stem).look()), "a root that machines share: the run has ended"


def test_a_note_of_another_version_fails_no_harvest(tmp_path: Path) -> None:
    (tmp_path / "login.json").write_text('{"v": 2, "name": "grok"}')
    facts = returning.take_back(tmp_path)
    assert "another version" in facts["credential_not_returned"]
    (tmp_path / "login.json").write_text(
        '{"v": 2, "login": "/l", "state": "s", "name": "n", "file": "f", "root": "/r", "run": []}'
    )
    assert "another version" in returning.take_back(tmp_path)["credential_not_returned"]


def test_a_login_beside_the_script_is_named_in_the_spec(site: Site) -> None:
    agent = load_agent(CONTENT, "cursor_cli")
    file = site.base / "beside" / "cursor_auth.json"
    file.parent.mkdir()
    file.write_bytes(auth())
    fields = of_spec(replace(agent, login_files=(file,)), 5)
    assert fields["credential_file"] == str(file) and fields["per_credential"] == 1 and fields["credential_state"]
    site.put(agent.credential, auth(2))
    assert "credential_file" not in of_spec(replace(agent, login_files=(file,)), 5), "the site's own goes first"


def test_keys_of_configs_are_keys_of_the_agent(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "a"
    folder.mkdir(parents=True)
    (folder / "solve.sh").write_text("true")
    (folder / "api_keys.json").write_text('{"allowed_api_keys": ["A_API_KEY"]}')
    (folder / "agent.toml").write_text('[config_keys]\n"x/" = "B_API_KEY"\n')
    with pytest.raises(ContentError, match="B_API_KEY"):
        load_agent(Content.of((tmp_path,)), "a")
