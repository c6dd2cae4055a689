"""What is in a login file: tokens, whose they are, until when. Total on any bytes; standard library alone.

The files of the vendors' CLIs are JSON objects in which `access_token` or `accessToken`, `refresh_token`, an account
and a time of renewal stand at some depth; a static token is one line of text. Tokens that are JWTs tell more: their
claims are read without being verified, which is enough to know when they expire.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MAX_LOGIN = 1 << 18  # bytes; the largest known file has 6 KB
CLOCKS_S = 86400.0  # by which clocks may differ
LONGEST_LIFE_S = 400 * 86400.0  # of an access token; the longest known is a year
LEAST_TOKEN = 6  # characters; anything shorter is no secret
PLACEHOLDER = "placeholder-"  # begins a refresh token that is none
_DEPTH = 6
_ACCESS = ("accesstoken",)
_REFRESH = ("refreshtoken",)
_IDENTITY = ("idtoken",)
_ACCOUNT = ("accountid", "userid", "sub", "email")
_RENEWED = ("lastrefresh", "lastrefreshed", "updatedat")
_EXPIRES = ("expiresat", "expires", "expiry")
_KEYS = ("openaiapikey", "apikey")  # a CLI that was also given a key keeps it there; it is not part of the login


@dataclass(frozen=True, slots=True)
class Login:
    """One login file as it was read. Times are Unix seconds, None where nothing tells them."""

    data: bytes
    access: str = ""
    refresh: str = ""
    identity: str = ""
    account: str = ""
    expires: float | None = None
    issued: float | None = None
    renewed: str = ""  # as the file says it
    written: float | None = None  # when the file was, where it was read from one

    @property
    def static(self) -> bool:
        """Whether nothing in it can be renewed."""
        return not self.refresh

    @property
    def tokens(self) -> tuple[str, ...]:
        """Everything in it that must never be shown."""
        return tuple(part for part in (self.access, self.refresh, self.identity) if len(part) >= LEAST_TOKEN)

    def expired(self, now: float | None = None, ahead: float = 0.0) -> bool:
        """Whether the access token is no longer taken, `ahead` seconds from now."""
        return self.expires is not None and self.expires <= (time.time() if now is None else now) + ahead


def claims(token: str) -> dict[str, Any]:
    """The claims of a JWT, not verified; empty for anything else."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_LOGIN:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def mark(token: str) -> str:
    """A name for a token that says nothing about it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _plain(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


def _walk(value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Names and values, the nearer ones first."""
    if depth > _DEPTH or not isinstance(value, dict):
        return
    for key, inner in value.items():
        if isinstance(inner, str | int | float) and not isinstance(inner, bool):
            yield _plain(str(key)), inner
    for inner in value.values():
        yield from _walk(inner, depth + 1)


def _moment(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        try:
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except OverflowError:
            return None
    if isinstance(value, int | float) and 0 < value < 1e14:
        return value / 1000 if value > 1e11 else float(value)
    return None


def _pick(found: list[tuple[str, Any]], names: tuple[str, ...]) -> str:
    texts = ((name, str(value)) for name, value in found if value != "")
    known: dict[str, str] = {}
    for name, text in texts:
        known.setdefault(name, text)
    return next((known[name] for name in names if name in known), "")


def read_login(data: bytes | None) -> Login | None:
    """What the bytes of a login file say; None when they hold no token."""
    if data is None or len(data) > MAX_LOGIN:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if value is None:
        text = data.decode("utf-8", "replace").strip()
        if len(text) < LEAST_TOKEN or any(not char.isprintable() or char.isspace() for char in text):
            return None
        return _of_token(data, text)
    if not isinstance(value, dict):
        return None
    found = list(_walk(value))
    access, refresh = _pick(found, _ACCESS), _pick(found, _REFRESH)
    if len(access) < LEAST_TOKEN:
        return None
    told = claims(access)
    identity = _pick(found, _IDENTITY)
    expires = _moment(told.get("exp"))
    if expires is None:
        expires = next((at for name, item in found if name in _EXPIRES and (at := _moment(item)) is not None), None)
    renewed = _pick(found, _RENEWED)
    issued = _moment(told.get("iat"))
    account = _pick(found, _ACCOUNT) or str(told.get("sub") or claims(identity).get("sub") or "")
    return Login(data, access, refresh, identity, account[:200], expires, issued, renewed[:64])


def _of_token(data: bytes, token: str) -> Login:
    told = claims(token)
    return Login(data, token, expires=_moment(told.get("exp")), issued=_moment(told.get("iat")))


def placeholder(access: str) -> str:
    """What stands where the refresh token stood: it tells us which access token its holder has, and nobody else."""
    return PLACEHOLDER + mark(access)


def for_a_run(login: Login) -> bytes:
    """The file that a sandbox gets for a brokered login: everything but the refresh token and keys."""
    value = json.loads(login.data)
    return (json.dumps(_without(value, login), indent=2) + "\n").encode()


def _without(value: Any, login: Login) -> Any:
    """Every occurrence goes, under whatever name it stands, also inside longer texts."""
    if isinstance(value, dict):
        return {key: None if _plain(str(key)) in _KEYS else _without(inner, login) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without(inner, login) for inner in value]
    if isinstance(value, str) and login.refresh and login.refresh in value:
        return value.replace(login.refresh, placeholder(login.access))
    return value


def renewed(login: Login, answer: dict[str, Any], at: str) -> bytes:
    """The login file after a renewal: the tokens the vendor gave, the rest as it was. ValueError without a token."""
    access = answer.get("access_token")
    if not isinstance(access, str) or len(access) < LEAST_TOKEN:
        raise ValueError("the answer holds no access token")
    value = json.loads(login.data)
    new = {name: answer[name] for name in ("access_token", "refresh_token", "id_token") if _text(answer.get(name))}
    return (json.dumps(_put(value, {_plain(name): text for name, text in new.items()}, at), indent=2) + "\n").encode()


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= LEAST_TOKEN


def _put(value: Any, new: dict[str, str], at: str, depth: int = 0) -> Any:
    if not isinstance(value, dict) or depth > _DEPTH:
        return value
    done = {}
    for key, inner in value.items():
        name = _plain(str(key))
        if name in new and (inner is None or isinstance(inner, str)):
            done[key] = new[name]
        elif name in _RENEWED and (inner is None or isinstance(inner, str)):
            done[key] = at
        else:
            done[key] = _put(inner, new, at, depth + 1)
    return done


def why_not_newer(old: Login | None, new: Login | None, now: float | None = None) -> str:
    """Why the file that came back from a sandbox does not replace the one that went in; "" when it does.

    `same` when there is nothing to replace. The sandbox can write anything there: what counts is that it is a login,
    names the same account, can still be renewed and was issued later, at a time that can be true.
    """
    moment = time.time() if now is None else now
    if new is None:
        return "what came back is no login"
    if old is None:
        return "there is no login any more that it could belong to"
    if new.data == old.data:
        return "same"
    if not old.account or new.account != old.account:
        return "what came back does not name the same account"
    if old.refresh and (not new.refresh or new.refresh.startswith(PLACEHOLDER)):
        return "what came back can no longer be renewed"
    if _from_the_future(new, moment):
        return "what came back is from the future"
    if _from_the_future(old, moment):
        return ""  # whoever wrote that must not keep every true one out
    for of in (_issued, lambda login: login.expires):  # like is compared with like
        before, after = of(old), of(new)
        if before is not None and after is not None:
            return "" if after > before else "what came back is not newer"
    return "" if _issued(new) is not None or new.expires is not None else "what came back is not newer"


def _issued(login: Login) -> float | None:
    """When it was issued: by its token, else by the file."""
    return login.issued if login.issued is not None else _moment(login.renewed)


def _from_the_future(login: Login, now: float) -> bool:
    """Whether a login tells a time that cannot be true."""
    told = [at for at in (login.issued, _moment(login.renewed)) if at is not None]
    if any(at > now + CLOCKS_S for at in told):
        return True
    return not told and login.expires is not None and login.expires > now + LONGEST_LIFE_S
