"""The credential broker: one renewal upstream for everybody, whatever is killed in between."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.errors import ConfigError
from ptb_tui.run.broker import MOST_SECRETS, CredentialBroker
from ptb_tui.run.renewing import LEAST_AGE_S, LONGEST_S, PATIENCE_S, Broker, broker_of, due
from ptb_tui.sandbox.egress import Policy
from ptb_tui.sandbox.gateway import Chain, Gateway
from ptb_tui.sandbox.ledger import Ledger
from ptb_tui.supplies import rescue
from ptb_tui.supplies.credentials import current, read, refusal, state_stem
from ptb_tui.supplies.leases import Lease
from ptb_tui.supplies.logins import PLACEHOLDER, Login, mark, read_login
from tests.run.brokers import ENTRY, Companion, until
from tests.supplies.vendor import Vendor


class World:
    """A site's login at a vendor, and the companions of some runs."""

    def __init__(self, base: Path, vendor: Vendor) -> None:
        self.base, self.vendor = base, vendor
        self.config = base / "config"
        self.login = self.config / "credentials" / "codex" / "auth.json"
        self.login.parent.mkdir(parents=True)
        self.companions: list[Companion] = []

    def sign_in(self, expires_in: float, issued_ago: float = 3600.0) -> None:
        self.login.write_bytes(self.vendor.login(expires_in, issued_ago))
        self.login.chmod(0o600)

    def companion(self) -> Companion:
        number = len(self.companions)
        found = Companion(self.base / "runs" / str(number), self.login, self.vendor.url, self.config)
        self.companions.append(found)
        return found

    def refresh_tokens_anywhere(self) -> list[str]:
        """Files of runs in which a refresh token of the vendor stands."""
        return [
            str(path)
            for path in (self.base / "runs").rglob("*")
            if path.is_file() and any(token.encode() in path.read_bytes() for token in self.vendor.given)
        ]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Vendor() as vendor:
        found = World(tmp_path, vendor)
        yield found
        for companion in found.companions:
            companion.close()
        assert found.refresh_tokens_anywhere() == []


def test_a_cli_gets_a_new_token_and_a_placeholder(world: World) -> None:
    world.sign_in(-5)
    one = world.companion()
    status, said = one.renew()
    now = read_login(world.login.read_bytes())
    assert status == 200 and now is not None
    assert said["access_token"] == now.access and said["id_token"] == now.identity
    assert said["refresh_token"] == PLACEHOLDER + mark(now.access)
    assert world.vendor.requests[0]["refresh_token"] == "refresh-1-" + "r4nd0m" * 9
    assert world.vendor.requests[0]["client_id"] == "app_test", "what the sandbox says is not passed on"
    assert world.login.stat().st_mode & 0o777 == 0o600 and now.refresh == world.vendor.good
    assert json.loads(world.login.read_bytes())["last_refresh"] > "2026-01-01"
    kept = json.loads((one.scratch / "secrets.json").read_text())["secrets"]
    assert now.access in kept.values() and now.identity in kept.values() and now.refresh not in kept.values()
    assert (one.scratch / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert now.access not in (one.scratch / "log").read_text()
    assert not (one.scratch / "ledger").exists()


def test_who_asks_again_and_again_changes_nothing(world: World) -> None:
    world.sign_in(3600, issued_ago=10)
    one = world.companion()
    before = world.login.read_bytes()
    for _ in range(3):
        assert one.renew()[0] == 200
    assert world.login.read_bytes() == before and not world.vendor.requests


def test_a_token_that_the_vendor_no_longer_takes_is_renewed_once(world: World) -> None:
    world.sign_in(3600)  # old enough, and still the one that the CLI has
    one, two = world.companion(), world.companion()
    assert one.renew()[0] == 200 and world.vendor.refreshes == 1
    assert two.renew()[0] == 200 and world.vendor.refreshes == 1, "the second finds the first one's"
    assert one.access == two.access


@pytest.mark.parametrize(
    ("body", "path", "status"),
    [
        (b"{}", "/", 404),
        (b"{}", "/an-unguessable-path-0123456788", 404),
        (b'{"grant_type": "refresh_token"}', "/an-unguessable-path-0123456789/x", 404),
        (b"[]", None, 400),
        (b"{", None, 400),
        (b"[" * 60000, None, 400),
        (b'{"grant_type": "authorization_code"}', None, 400),
        (b'{"token": "x", "token_type_hint": "refresh_token"}', None, 200),
        (b"x" * 70000, None, 413),
    ],
)
def test_other_requests_get_nothing(world: World, body: bytes, path: str | None, status: int) -> None:
    world.sign_in(-5)
    one = world.companion()

    def ask() -> Any:
        try:
            return one.post(body, path)
        except OSError:
            return None

    got, said = until(ask)
    assert got == status and "access_token" not in said and not world.vendor.requests


def test_a_form_is_understood(world: World) -> None:
    world.sign_in(3600, issued_ago=5)
    one = world.companion()
    assert one.renew()[0] == 200
    status, said = one.post(b"grant_type=refresh_token&refresh_token=x", kind="application/x-www-form-urlencoded")
    assert status == 200 and said["access_token"] == one.access


def test_a_refusal_is_final_until_somebody_signs_in(world: World) -> None:
    world.sign_in(-5)
    world.vendor.answer = (401, {"error": {"code": "refresh_token_expired", "message": "secret words"}})
    one, two = world.companion(), world.companion()
    assert one.renew() == (401, {"error": "invalid_grant"})
    assert two.renew()[0] == 401 and len(world.vendor.requests) == 1
    login = read_login(world.login.read_bytes())
    assert login is not None
    assert refusal(state_stem(world.config, world.login), login) == "401 refresh_token_expired"
    world.vendor.answer = None
    world.sign_in(-5)
    assert two.renew()[0] == 200


def test_a_vendor_in_trouble_is_asked_again(world: World) -> None:
    world.sign_in(-5)
    world.vendor.answer = (503, {})
    one = world.companion()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(one.renew)
        until(lambda: world.vendor.requests)
        world.vendor.answer = None
        assert asked.result(50)[0] == 200
    assert world.vendor.refreshes == 1


def test_a_person_who_signs_in_meanwhile_wins(world: World) -> None:
    world.sign_in(-5)
    world.vendor.hold = threading.Event()
    one = world.companion()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(one.renew)
        assert world.vendor.asked.wait(30)
        theirs = world.vendor.login(3600, issued_ago=0)
        world.login.write_bytes(theirs)
        world.vendor.hold.set()
        assert asked.result(50)[0] == 200
    assert world.login.read_bytes() == theirs
    found = read_login(theirs)
    assert found is not None and one.access == found.access


def test_twelve_at_the_same_second_make_one_request(world: World) -> None:
    world.sign_in(-1)
    runs = [world.companion() for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda run: run.renew(), runs))
    assert [status for status, _ in answers] == [200] * 12
    assert world.vendor.refreshes == 1 and len(world.vendor.requests) == 1
    assert len({run.access for run in runs}) == 1 and len({run.refresh for run in runs}) == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_killing_companions_changes_nothing_but_a_retry(world: World, seed: int) -> None:
    world.sign_in(-1)
    world.vendor.hold = threading.Event()
    runs = [world.companion() for _ in range(12)]
    dice = random.Random(seed)
    over = threading.Event()

    def killer() -> None:
        while not over.wait(dice.uniform(0.01, 0.1)):
            dice.choice(runs).kill()

    with ThreadPoolExecutor(13) as pool:
        asked = [pool.submit(run.renew) for run in runs]
        assert world.vendor.asked.wait(50)
        for run in runs:
            run.kill()  # every one of them, while the vendor thinks
        killing = pool.submit(killer)
        world.vendor.hold.set()
        time_is_up = time.monotonic() + 3
        until(lambda: world.vendor.refreshes == 1)
        until(lambda: time.monotonic() > time_is_up or all(one.done() for one in asked))
        over.set()
        killing.result(20)
        assert [one.result(60)[0] for one in asked] == [200] * 12
    assert world.vendor.refreshes == 1 and world.vendor.reused == 0 and len(world.vendor.requests) == 1
    now = read_login(world.login.read_bytes())
    assert now is not None and now.refresh == world.vendor.good
    assert {run.access for run in runs} == {now.access}


def test_a_renewal_that_was_killed_is_taken_over(world: World) -> None:
    """The one process that must not die did: its lock is passed over, and a vendor that had not answered is asked."""
    world.sign_in(-1)
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    from ptb_tui.core import clock

    identity = clock.identify(child.pid)
    assert identity is not None
    assert Lease(state_stem(world.config, world.login)).take({"process": identity.to_json()}, 60)
    one = world.companion()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(one.renew)
        until(lambda: one.process is not None and one.process.poll() is None)
        assert not world.vendor.requests
        child.kill()
        child.communicate()
        assert asked.result(50)[0] == 200
    assert world.vendor.refreshes == 1


def test_when_the_vendor_is_asked() -> None:
    with Vendor() as vendor:
        now = time.time()
        old, young = read_login(vendor.login(3600)), read_login(vendor.login(3600, issued_ago=5))
        ended, opaque = read_login(vendor.login(-5, issued_ago=5)), read_login(b"opaque-token")
        assert old and young and ended and opaque
        assert due(old, mark(old.access)) and due(old, "") and not due(old, "another")
        assert not due(young, mark(young.access)) and due(young, mark(young.access), now + LEAST_AGE_S)
        assert due(ended, "another") and due(ended, mark(ended.access))
        assert due(opaque, mark("opaque-token")) and not due(opaque, "x")


def renew_once(world: World, one: Companion, seen: str = "", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The process that a companion starts, by itself."""
    argv = [sys.executable, "-I", ENTRY, "renew-login", str(one.scratch), seen]
    return subprocess.run(argv, check=False, capture_output=True, timeout=60, **options)


def key_file(world: World, ending: str) -> Path:
    stem = state_stem(world.config, world.login)
    return stem.with_name(f"{stem.name}.{ending}")


def beside(world: World) -> list[str]:
    return sorted(path.name for path in world.login.parent.iterdir())


def test_nobody_is_asked_while_there_is_no_room_for_the_answer(world: World) -> None:
    world.sign_in(-5)
    one = world.companion()
    full = 32 << 10  # no file may be larger: as on a disk or a quota that is full
    done = renew_once(world, one, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (full, full)))
    assert done.returncode == 1 and b"has no room" in done.stderr and not world.vendor.requests
    assert beside(world) == ["auth.json"]
    assert renew_once(world, one).returncode == 0 and world.vendor.refreshes == 1
    assert beside(world) == ["auth.json"]


def test_an_answer_that_finds_no_place_is_kept_and_read_first(world: World) -> None:
    world.sign_in(-5)
    before = world.login.read_bytes()
    world.vendor.hold = threading.Event()
    one = world.companion()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(renew_once, world, one)
        assert world.vendor.asked.wait(30)
        world.login.parent.rename(world.base / "moved")  # a folder of the same content is mounted over it, say
        world.login.parent.mkdir()
        world.login.write_bytes(before)
        world.vendor.hold.set()
        done = asked.result(60)
    assert done.returncode == 0 and b"kept as" in done.stderr and world.login.read_bytes() == before
    rescued = key_file(world, "rescued")
    assert rescued.stat().st_mode & 0o777 == 0o600 and world.vendor.good in rescued.read_text()
    given = current(world.login, state_stem(world.config, world.login))
    assert given is not None and given.refresh == world.vendor.good and not given.expired()
    assert one.renew()[0] == 200 and one.access == given.access, "it is handed out"
    assert renew_once(world, one).returncode == 0 and world.vendor.refreshes == 1
    now = read_login(world.login.read_bytes())
    assert now is not None and now.refresh == world.vendor.good and not rescued.exists()


def test_what_was_kept_for_another_login_is_not_read(world: World) -> None:
    world.sign_in(-5)
    old = read_login(world.login.read_bytes())
    assert old is not None
    rescue.keep(state_stem(world.config, world.login), old, world.vendor.login(3600))
    world.sign_in(3600)
    now = current(world.login, state_stem(world.config, world.login))
    assert now is not None and now.refresh == world.vendor.good


@pytest.mark.parametrize("status", [400, 401, 403])
@pytest.mark.parametrize(
    "said", [{"error": "access_denied"}, {"error": {"code": "blocked_by_policy"}}, {}, "<html>sign in to the network"]
)
def test_only_a_known_word_of_the_vendor_ends_a_login(world: World, status: int, said: Any) -> None:
    world.sign_in(-5)
    world.vendor.answer = (status, said)
    one = world.companion()
    assert renew_once(world, one).returncode == 1 and len(world.vendor.requests) == 1
    assert not key_file(world, "refused").exists()


@pytest.mark.parametrize(
    "said",
    [{"error": "invalid_grant"}, {"error": {"code": "refresh_token_invalidated"}}, {"code": "refresh_token_reused"}],
)
def test_a_known_word_ends_it(world: World, said: Any) -> None:
    world.sign_in(-5)
    world.vendor.answer = (400, said)
    assert renew_once(world, world.companion()).returncode == 3 and key_file(world, "refused").exists()


def test_a_token_that_tells_nothing_is_as_old_as_its_file(world: World) -> None:
    world.login.write_text(json.dumps({"access_token": "opaque-token", "refresh_token": "opaque-refresh"}))
    found = read(world.login)
    assert found is not None and found.issued is None
    now = time.time()
    assert not due(found, mark(found.access), now) and due(found, mark(found.access), now + LEAST_AGE_S + 60)
    os.utime(world.login, (now + 1e8, now + 1e8))
    later = read(world.login)
    assert later is not None and due(later, "", now), "a wrong date of a file is no way to keep it for ever"


def test_what_is_to_be_redacted_does_not_grow_without_end(world: World) -> None:
    world.sign_in(3600)
    (world.base / "s").mkdir()
    dump = {"v": 1, "secrets": {"codex-1-access": "the-first-of-all"}}
    (world.base / "s" / "secrets.json").write_text(json.dumps(dump))
    broker = CredentialBroker(broker_settings(world), world.base / "s", [])
    tokens = [f"access-token-{n}" for n in range(MOST_SECRETS + 20)]
    for token in tokens:
        broker._note(Login(b"", token))
    kept = json.loads((world.base / "s" / "secrets.json").read_text())["secrets"]
    assert len(kept) == MOST_SECRETS and list(kept.values()) == ["the-first-of-all", *tokens[1 - MOST_SECRETS :]]


def broker_settings(world: World) -> Broker:
    stem = state_stem(world.config, world.login)
    return Broker(world.login, stem, world.vendor.url, "app", "/" + "s" * 30, 1, False)


def test_a_torn_lock_is_not_waited_for_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = CredentialBroker(broker_settings(world), world.base, [])
    assert not broker._others()
    key_file(world, "000004").parent.mkdir(parents=True)
    key_file(world, "000004").write_text("")
    assert broker._others()
    monkeypatch.setattr("ptb_tui.run.broker.HOLDER_S", 0.0)
    assert not broker._others() and LONGEST_S > PATIENCE_S, "then a renewal waits and passes it over"


GOOD = {"login": "/l", "state": "/s", "token_url": "u", "client_id": "c", "secret": "/" + "s" * 30, "port": 5}


@pytest.mark.parametrize(
    "more", [{"secret": "/short"}, {"secret": 1}, {"port": 0}, {"port": "5"}, {"listen": 1}, {"login": ""}]
)
def test_a_wrong_section_is_named(more: dict[str, Any]) -> None:
    assert broker_of(None, Path("x")) is None and broker_of({**GOOD, "listen": True}, Path("x")) is not None
    wrongs: list[Any] = [{**GOOD, "listen": True, **more}, []]
    for wrong in wrongs:
        with pytest.raises(ConfigError, match="broker"):
            broker_of(wrong, Path("x"))


def test_a_service_behind_the_gateway_is_reached_whatever_the_policy(tmp_path: Path) -> None:
    """The way of a sandbox with a network of its own: CONNECT through the bound socket, no port of the host."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + await reader.readline())
        await writer.drain()

    async def play() -> list[bytes]:
        gateway = Gateway(Policy(()), Ledger(tmp_path / "ledger"), Chain(), services={23456: serve})
        await gateway.serve(tmp_path / "s")
        answers = []
        for port in (23456, 23457):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
            writer.write(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\nhello\n" % port)
            answers.append(await reader.read())
            writer.close()
        await gateway.close()
        return answers

    served, refused = asyncio.run(play())
    assert served.startswith(b"HTTP/1.1 200") and served.endswith(b"heard hello\n")
    assert refused.startswith(b"HTTP/1.1 403")
    lines = [json.loads(line) for line in (tmp_path / "ledger").read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["allowed", "refused"]
