import json
import time
from pathlib import Path

import pytest

from ptb_tui.content import frozen
from ptb_tui.core.credential import CODEX_JUDGE, CredentialUse
from ptb_tui.supplies.credentials import keep, locate, own_place, same_login, secrets_of, standing, state_stem, when
from ptb_tui.supplies.logins import read_login
from tests.supplies.vendor import codex_login, jwt

STATIC = CredentialUse(kind="static_token", name="claude", file="oauth_token", found="oauth_token")


def auth(n: int = 1) -> bytes:
    access = jwt(iat=int(time.time()) - 50 + n, exp=int(time.time()) + 3600, n=n)
    return json.dumps(codex_login(access, f"refresh-token-{n}")).encode()


def test_the_site_s_own_login_goes_before_the_original_s_place(tmp_path: Path) -> None:
    beside = tmp_path / "agents" / "codex_non_api" / "auth.json"
    beside.parent.mkdir(parents=True)
    assert locate(CODEX_JUDGE, tmp_path / "c", (beside,)) is None
    beside.write_bytes(auth())
    link = tmp_path / "agents" / "codex_non_api_high"
    link.mkdir()
    (link / "auth.json").symlink_to("../codex_non_api/auth.json")  # as the original lays them out
    found = locate(CODEX_JUDGE, tmp_path / "c", (link / "auth.json", beside))
    assert found is not None and found.path == beside and not found.ours and found.origin == "beside solve.sh"
    assert state_stem(tmp_path / "c", link / "auth.json") == state_stem(tmp_path / "c", beside), "one lock for both"
    keep(tmp_path / "c", own_place(tmp_path / "c", CODEX_JUDGE), auth(2))
    found = locate(CODEX_JUDGE, tmp_path / "c", (beside,))
    assert found is not None and found.ours and found.path == own_place(tmp_path / "c", CODEX_JUDGE)


def test_a_login_is_kept_whole_and_private(tmp_path: Path) -> None:
    place = own_place(tmp_path, CODEX_JUDGE)
    place.parent.mkdir(parents=True, mode=0o755)
    keep(tmp_path, place, auth(1))
    first = place.read_bytes()
    keep(tmp_path, place, auth(2))
    before = state_stem(tmp_path, place).with_name(f"{state_stem(tmp_path, place).name}.before")
    assert before.read_bytes() == first
    for path in (tmp_path / "credentials").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert (tmp_path / "credentials").stat().st_mode & 0o777 == 0o700


def test_how_a_login_stands(tmp_path: Path) -> None:
    assert standing(STATIC, tmp_path).state == "absent"
    place = own_place(tmp_path, STATIC)
    for data, state in (
        (b"", "unreadable"),
        (b"\xff\xfe\x00", "unreadable"),
        (jwt(exp=int(time.time()) - 5).encode(), "expired"),
        (jwt(exp=10**30).encode(), "ok"),
        (b"sk-ant-oat01-abcdef\n", "ok"),
    ):
        keep(tmp_path, place, data)
        found = standing(STATIC, tmp_path)
        assert found.state == state and found.usable == (state == "ok"), data
        assert bool(found.words) != found.usable
    place.unlink()
    place.mkdir()
    assert standing(STATIC, tmp_path).state == "absent"


def test_the_same_login_is_recognised(tmp_path: Path) -> None:
    agents = CODEX_JUDGE.model_copy(update={"name": "codex"})
    keep(tmp_path, own_place(tmp_path, agents), auth())
    assert not same_login(standing(agents, tmp_path), standing(CODEX_JUDGE, tmp_path))
    keep(tmp_path, own_place(tmp_path, CODEX_JUDGE), auth())
    assert same_login(standing(agents, tmp_path), standing(CODEX_JUDGE, tmp_path)), "a copy is no login of its own"
    keep(tmp_path, own_place(tmp_path, CODEX_JUDGE), auth(2))
    assert not same_login(standing(agents, tmp_path), standing(CODEX_JUDGE, tmp_path))


def test_times_and_secrets(tmp_path: Path) -> None:
    assert when(0) == "1970-01-01 00:00 UTC" and when(None) == "" and when(1e300) == "" and when(-5) == ""
    login = read_login(auth())
    assert login is not None
    found = secrets_of({"codex": login})
    assert set(found) == {"codex-access", "codex-refresh", "codex-identity"}


@pytest.mark.parametrize(
    ("name", "mode", "refused"),
    [
        ("auth.json", 0o644, True),
        ("cursor_auth.json", 0o644, True),
        ("grok_auth.json", 0o644, True),
        ("oauth_token", 0o644, True),
        ("oauth_token.old", 0o644, True),
        (".env", 0o644, True),
        ("credentials", 0o644, True),
        ("credentials.json", 0o644, True),
        ("credentials.toml", 0o644, True),
        ("credentials-old.json", 0o644, True),
        ("credentials.py.bak", 0o644, True),
        ("oauth_token.py", 0o644, True),
        ("anything.json", 0o600, True),
        ("credentials.py", 0o644, False),
        ("api_keys.json", 0o644, False),
        ("solve.sh", 0o755, False),
    ],
)
def test_no_login_enters_a_bundle(tmp_path: Path, name: str, mode: int, refused: bool) -> None:
    path = tmp_path / name
    path.write_text("x")
    path.chmod(mode)
    assert frozen.refused(path) == refused
