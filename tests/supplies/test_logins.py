import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.supplies.logins import (
    PLACEHOLDER,
    Login,
    claims,
    for_a_run,
    placeholder,
    read_login,
    renewed,
    why_not_newer,
)
from tests.supplies.vendor import ACCOUNT, codex_login, jwt

NOW = time.time()


def login(n: int = 1, *, account: str = ACCOUNT, refresh: str = "refresh-token-1", ago: float = 100.0) -> Login:
    access = jwt(iat=int(NOW - ago), exp=int(NOW + 3600), n=n)
    found = read_login(json.dumps(codex_login(access, refresh, jwt(email="x"), account)).encode())
    assert found is not None
    return found


def test_a_codex_login_is_read() -> None:
    found = login()
    assert found.account == ACCOUNT and found.refresh == "refresh-token-1" and found.expires == int(NOW + 3600)
    assert not found.expired() and found.expired(NOW + 3601) and found.expired(NOW, ahead=3601)
    assert len(found.tokens) == 3 and not found.static


@pytest.mark.parametrize(
    "value",
    [
        {"accessToken": "a" * 40, "refreshToken": "r" * 40, "userId": "u1"},
        {"https://auth.example/x": {"auth": {"access_token": "a" * 40, "refresh-token": "r" * 40, "user_id": "u1"}}},
    ],
)
def test_other_vendors_spell_it_otherwise(value: object) -> None:
    found = read_login(json.dumps(value).encode())
    assert found is not None and (found.access, found.refresh, found.account) == ("a" * 40, "r" * 40, "u1")
    assert found.expires is None and not found.expired()


def test_a_static_token_is_one_line() -> None:
    found = read_login(b"sk-ant-oat01-something\n")
    assert found is not None and found.static and found.access == "sk-ant-oat01-something"
    assert read_login(b"two words") is None and read_login(b"") is None and read_login(None) is None
    assert read_login(b"{}") is None and read_login(b"[1]") is None and read_login(b"x" * (1 << 19)) is None
    ended = read_login(jwt(exp=int(NOW - 5)).encode())
    assert ended is not None and ended.expired()


@given(st.binary(max_size=400))
def test_any_bytes_are_a_login_or_none(data: bytes) -> None:
    found = read_login(data)
    assert found is None or found.access


_TREE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["access_token", "refreshToken", "sub", "expires_at", "last_refresh", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_TREE, st.sampled_from(["", jwt(exp="soon"), jwt(exp=[1], iat={}), "a.!!.c", "a.e30.c"]))
def test_odd_files_never_raise(tree: object, token: str) -> None:
    read_login(json.dumps(tree).encode())
    claims(token)
    found = read_login(json.dumps({"access_token": token or "abcdefgh", "x": tree}).encode())
    if found is not None:
        why_not_newer(found, found)
        found.expired()


def test_the_file_of_a_run_has_everything_but_what_renews() -> None:
    value = codex_login(jwt(exp=int(NOW + 60)), "refresh-secret-77", jwt(email="x"))
    value["OPENAI_API_KEY"] = "sk-of-the-operator-000000"
    value["copy"] = ["again refresh-secret-77 here"]
    found = read_login(json.dumps(value).encode())
    assert found is not None
    data = for_a_run(found)
    assert b"refresh-secret-77" not in data and b"sk-of-the-operator" not in data
    given = json.loads(data)["tokens"]
    assert given["access_token"] == found.access and given["account_id"] == ACCOUNT
    assert given["refresh_token"] == placeholder(found.access) and given["refresh_token"].startswith(PLACEHOLDER)


def test_a_renewal_keeps_what_it_does_not_know() -> None:
    before = login()
    after = read_login(renewed(before, {"access_token": "new-access", "refresh_token": "new-refresh"}, "2026-02-02"))
    assert after is not None and (after.access, after.refresh) == ("new-access", "new-refresh")
    assert after.account == ACCOUNT and after.renewed == "2026-02-02" and after.identity == before.identity
    kept = read_login(renewed(before, {"access_token": "new-access"}, "t"))
    assert kept is not None and kept.refresh == before.refresh
    with pytest.raises(ValueError):
        renewed(before, {"refresh_token": "x" * 20}, "t")


def test_what_comes_back_must_be_newer_and_of_the_same_account() -> None:
    old = login()
    assert why_not_newer(old, login(2, refresh="refresh-token-2", ago=10)) == ""
    assert why_not_newer(old, old) == "same"
    assert "no login" in why_not_newer(old, None) and "any more" in why_not_newer(None, old)
    assert "account" in why_not_newer(old, login(2, account="another", ago=10))
    assert "not newer" in why_not_newer(old, login(2, refresh="other-refresh", ago=200))
    assert "renewed" in why_not_newer(old, login(2, refresh="", ago=10))
    assert "renewed" in why_not_newer(old, login(2, refresh=PLACEHOLDER + "1", ago=10))
    assert "future" in why_not_newer(old, login(2, ago=-9e6))
    nobody = read_login(json.dumps({"access_token": "a" * 20, "refresh_token": "r" * 20}).encode())
    other = read_login(json.dumps({"access_token": "b" * 20, "refresh_token": "s" * 20}).encode())
    assert "account" in why_not_newer(nobody, other)


def moved(account: str = "acc", **times: object) -> Login:
    """A login whose tokens tell nothing, with what its file says."""
    data = {"access_token": "a" * 40, "refresh_token": f"refresh-{times}", "account_id": account, **times}
    found = read_login(json.dumps(data).encode())
    assert found is not None
    return found


def test_nobody_can_keep_later_logins_out_with_a_time_that_is_not_true() -> None:
    day = 86400
    at = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW + shift)) for shift in (-day, 0, 2 * day)]
    old, new = moved(last_refresh=at[0]), moved(last_refresh=at[1])
    assert why_not_newer(old, new, NOW) == "" and "not newer" in why_not_newer(new, old, NOW)
    for lie in ({"last_refresh": "2999-01-01T00:00:00Z"}, {"last_refresh": at[2]}, {"expires_at": NOW + 900 * day}):
        assert "future" in why_not_newer(old, moved(**lie), NOW), lie
        assert why_not_newer(moved(**lie), new, NOW) == "", "one that was put there before keeps nobody out"
    access = jwt(iat=int(NOW), exp=int(NOW + 3600))
    liar = read_login(json.dumps(codex_login(access, "r" * 20) | {"last_refresh": "2999-01-01"}).encode())
    assert "future" in why_not_newer(login(), liar, NOW), "a true token beside it is no excuse"


def test_like_is_compared_with_like() -> None:
    assert why_not_newer(moved(expires_at=NOW + 5000), moved(expires_at=NOW + 9000), NOW) == ""
    assert "not newer" in why_not_newer(moved(expires_at=NOW + 9000), moved(expires_at=NOW + 5000), NOW)
    issued, lasts = moved(last_refresh="2026-01-01T00:00:00Z"), moved(expires_at=NOW + 30 * 86400)
    assert why_not_newer(lasts, issued, NOW) == "", "when one ends is not when another began"
    assert "not newer" in why_not_newer(issued, moved(), NOW)
