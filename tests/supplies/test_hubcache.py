"""Caching against a hub on this machine: whole or not at all, gone on with, and every refusal with what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptb_tui.core.errors import NotAllowed, PtbError, StorageError
from ptb_tui.supplies import claims, hubcache
from ptb_tui.supplies.hub import Repo, record_file, state
from ptb_tui.supplies.hubapi import ATTEMPTS, Hub
from tests.supplies.fakehub import FakeHub, serving

WEIGHTS = bytes(range(256)) * 40
MODEL = {
    "config.json": b'{"model_type": "tiny"}',
    "model.safetensors": WEIGHTS,
    "tokenizer/vocab.txt": b"a\nb\n",
    "empty.txt": b"",
    "copy.safetensors": WEIGHTS,
}
ONE = Repo("model", "org/one")


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serving(FakeHub()) as found:
        found.model("org/one", MODEL)
        yield found


def fill(cache: Path, hub: FakeHub, *repos: Repo, token: str = "", refresh: bool = False) -> hubcache.Outcome:
    client = Hub(hub.endpoint, token, timeout=20, pause=lambda _: None)
    return hubcache.cache(cache, repos, client, lambda _: None, lambda *_: None, refresh=refresh)


def offline(cache: Path, repo: Repo) -> dict[str, str]:
    """What the hub's own library finds without a network: name → content as text."""
    pytest.importorskip("huggingface_hub")
    code = (
        "import json, pathlib, sys; from huggingface_hub import snapshot_download;"
        "top = pathlib.Path(snapshot_download(sys.argv[1], repo_type=sys.argv[2]));"
        "files = [path for path in top.rglob('*') if path.is_file()];"
        "print(json.dumps({str(path.relative_to(top)): path.read_bytes().decode('latin-1') for path in files}))"
    )
    env = {"PATH": os.defpath, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1", "HOME": str(cache)}
    done = subprocess.run([sys.executable, "-c", code, repo.id, repo.kind], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_a_cached_model_is_found_by_the_hubs_own_library(hub: FakeHub, tmp_path: Path) -> None:
    outcome = fill(tmp_path, hub, ONE)
    assert outcome.fetched == [ONE] and not outcome.failed
    found = state(tmp_path, ONE)
    assert (found.state, found.commit, found.ours, found.files) == ("cached", "a" * 40, True, len(MODEL))
    assert offline(tmp_path, ONE) == {name: data.decode("latin-1") for name, data in MODEL.items()}
    assert hubcache.summary(outcome) == "1 cached, 1 of them new"
    asked = len(hub.requests)
    again = fill(tmp_path, hub, ONE)
    assert again.there == [ONE] and len(hub.requests) == asked, "what is whole is not asked for again"


def test_data_sets_lie_apart_from_models_of_the_same_name(hub: FakeHub, tmp_path: Path) -> None:
    hub.dataset("org/one", {"data/train 1.jsonl": b'{"x": 1}\n'})
    lone = Repo("dataset", "lone")
    hub.dataset("lone", {"a.txt": b"alone"})
    data = Repo("dataset", "org/one")
    assert fill(tmp_path, hub, data, lone).fetched == [data, lone]
    assert offline(tmp_path, data) == {"data/train 1.jsonl": '{"x": 1}\n'}
    assert offline(tmp_path, lone) == {"a.txt": "alone"} and state(tmp_path, ONE).state == "absent"


def test_the_same_content_is_fetched_once(hub: FakeHub, tmp_path: Path) -> None:
    fill(tmp_path, hub, ONE)
    assert sum(server == "storage" for server, _, _ in hub.requests) == 1


def test_a_transfer_that_was_cut_goes_on_where_it_was(hub: FakeHub, tmp_path: Path) -> None:
    hub.cut["copy.safetensors"] = 4000  # of two files with one content the last one is asked for
    assert not fill(tmp_path, hub, ONE).failed
    ranges = [span for server, _, span in hub.requests if server == "storage"]
    assert ranges == ["", "bytes=4000-"]


def test_a_server_that_knows_no_ranges_sends_it_again(hub: FakeHub, tmp_path: Path) -> None:
    hub.cut["copy.safetensors"], hub.ignore_range = 4000, True
    assert not fill(tmp_path, hub, ONE).failed and state(tmp_path, ONE).state == "cached"


def test_an_interrupted_cache_is_partial_and_is_gone_on_with(hub: FakeHub, tmp_path: Path) -> None:
    blobs = tmp_path / "hub" / ONE.folder / "blobs"
    fill(tmp_path, hub, ONE)
    large = max(blobs.iterdir(), key=lambda path: path.stat().st_size)
    large.with_name(f"{large.name}.ptb-part").write_bytes(WEIGHTS[:5000])
    large.unlink()
    assert state(tmp_path, ONE).state == "partial"
    record_file(tmp_path, ONE).unlink()
    assert state(tmp_path, ONE).state == "partial", "a link that leads nowhere is seen without a record, too"
    hub.requests.clear()
    assert fill(tmp_path, hub, ONE).fetched == [ONE] and state(tmp_path, ONE).state == "cached"
    assert [span for server, _, span in hub.requests if server == "storage"] == ["bytes=5000-"]
    assert not list(blobs.glob("*.ptb-part"))


def test_content_that_is_not_what_was_announced_is_fetched_again(hub: FakeHub, tmp_path: Path) -> None:
    hub.spoiled = {"model.safetensors", "config.json", "copy.safetensors"}
    assert not fill(tmp_path, hub, ONE).failed
    assert offline(tmp_path, ONE)["config.json"] == MODEL["config.json"].decode()


def test_a_gated_repository_is_named_with_what_to_do_and_hinders_no_other(hub: FakeHub, tmp_path: Path) -> None:
    shut = Repo("model", "org/shut")
    hub.model("org/shut", {"config.json": b"{}"}, gated=True)
    outcome = fill(tmp_path, hub, shut, ONE)
    assert outcome.fetched == [ONE] and [failure.repo for failure in outcome.failed] == [shut]
    assert outcome.failed[0].words == "model org/shut is gated"
    assert f"accept its terms at {hub.endpoint}/org/shut, then put HF_TOKEN" in outcome.failed[0].remedy
    wrong = fill(tmp_path, hub, shut, token="tok-of-another")
    assert "with the account of the token" in wrong.failed[0].remedy
    with pytest.raises(PtbError, match="0 cached, 0 of them new; 1 not: model org/shut is gated"):
        hubcache.summary(wrong)
    assert fill(tmp_path, hub, shut, token=hub.token).fetched == [shut]


def test_a_gated_repository_may_list_what_it_does_not_give(hub: FakeHub, tmp_path: Path) -> None:
    shut = Repo("model", "org/shut")
    hub.model("org/shut", MODEL, gated=True, listed=True)
    client = Hub(hub.endpoint)
    answer = hubcache.sizes(client, [shut])[shut]
    assert not isinstance(answer, PtbError) and answer.gated and answer.size > len(WEIGHTS)
    outcome = fill(tmp_path, hub, shut, ONE)
    assert outcome.fetched == [ONE] and outcome.failed[0].words == "model org/shut is gated"
    assert state(tmp_path, shut).state == "partial"


def test_the_token_goes_to_the_hub_alone(hub: FakeHub, tmp_path: Path) -> None:
    fill(tmp_path, hub, ONE, token=hub.token)
    assert hub.strangers == [""]


def test_one_that_does_not_exist_says_so(hub: FakeHub, tmp_path: Path) -> None:
    outcome = fill(tmp_path, hub, Repo("dataset", "org/none"), ONE)
    assert "does not exist on the hub" in outcome.failed[0].words and outcome.fetched == [ONE]


def test_a_busy_hub_is_asked_again(hub: FakeHub, tmp_path: Path) -> None:
    hub.busy = ATTEMPTS - 1
    assert fill(tmp_path, hub, ONE).fetched == [ONE]
    hub.busy = 10**6
    outcome = fill(tmp_path, hub, *(Repo("model", f"org/m{number}") for number in range(40)))
    assert len(outcome.failed) == 40 and all("HF_ENDPOINT" in failure.remedy for failure in outcome.failed)
    assert 10**6 - hub.busy <= ATTEMPTS * (hubcache.WORKERS + 1), "who gets no answer stops asking"


def test_refresh_takes_a_newer_commit_and_keeps_what_is_the_same(hub: FakeHub, tmp_path: Path) -> None:
    fill(tmp_path, hub, ONE)
    repo = hub.repos["models", "org/one"]
    repo.commit, repo.files = "b" * 40, {**MODEL, "config.json": b'{"model_type": "other"}'}
    assert fill(tmp_path, hub, ONE).there == [ONE] and state(tmp_path, ONE).commit == "a" * 40
    hub.requests.clear()
    assert fill(tmp_path, hub, ONE, refresh=True).fetched == [ONE] and state(tmp_path, ONE).commit == "b" * 40
    assert not [1 for server, _, _ in hub.requests if server == "storage"]
    assert "other" in offline(tmp_path, ONE)["config.json"]


@pytest.mark.parametrize("path", ["../../evil", "/etc/evil", "a/../../evil", "a//b", "x\0y"])
def test_a_hub_cannot_write_elsewhere(hub: FakeHub, tmp_path: Path, path: str) -> None:
    hub.model("org/evil", {path: b"x"})
    outcome = fill(tmp_path / "cache", hub, Repo("model", "org/evil"))
    assert "a file that cannot be" in outcome.failed[0].words
    assert not (tmp_path / "evil").exists()


def test_one_process_at_a_time_fills_a_cache(hub: FakeHub, tmp_path: Path) -> None:
    with (
        claims.claimed(tmp_path / "ptb" / "caching.json", "it"),
        pytest.raises(NotAllowed, match="is being worked on by process"),
    ):
        fill(tmp_path, hub, ONE)
    assert fill(tmp_path, hub, ONE).fetched == [ONE]


def test_what_has_no_room_is_refused_before_it_is_begun(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubcache, "SPARE", 1 << 60)
    with pytest.raises(StorageError, match="are to be fetched"):
        fill(tmp_path, hub, ONE)
    assert state(tmp_path, ONE).state == "partial", "folders alone count as nothing"


def test_the_account_is_in_the_settings_or_beside_the_cache(tmp_path: Path) -> None:
    assert hubcache.token({}, tmp_path) == ""
    (tmp_path / "token").write_text("hf_cached\n")
    assert hubcache.token({}, tmp_path) == "hf_cached"
    assert hubcache.token({"MY_HF_TOKEN": "mine"}, tmp_path) == "mine"
    assert hubcache.token({"MY_HF_TOKEN": "mine", "HF_TOKEN": "first"}, tmp_path) == "first"
