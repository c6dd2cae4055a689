"""Where the logins of a site lie, and how they stand (design §5, Secrets).

    <config>/credentials/<name>/<found>       0700/0600; obtained by `ptb-tui credentials login NAME`
    <content>/agents/<agent>/<found>          the original's place beside solve.sh; read where it is, never copied
    <config>/credentials/.state/<key>.<n>     locks of a login, by the place of its file; <key>.refused, <key>.before,
                                              <key>.rescued

The first that exists is used. A login belongs to one site: two machines that renew it on their own lose it. Standard
library alone: the companion reads here too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ptb_tui.core import clock, files
from ptb_tui.supplies import rescue
from ptb_tui.supplies.logins import MAX_LOGIN, Login, mark, read_login

if TYPE_CHECKING:
    from ptb_tui.core.credential import CredentialUse


def store(config_home: Path) -> Path:
    """The folder of all logins that this site obtained itself."""
    return config_home / "credentials"


@dataclass(frozen=True, slots=True)
class Located:
    """A login file: its real path, and whether it lies in our store."""

    path: Path
    ours: bool

    @property
    def origin(self) -> str:
        """Where that is, in words."""
        return "credentials" if self.ours else "beside solve.sh"


def own_place(config_home: Path, use: CredentialUse) -> Path:
    """Where a login of this use is put when it is obtained here."""
    return store(config_home) / use.name / use.found


def locate(use: CredentialUse, config_home: Path, beside: Iterable[Path] = ()) -> Located | None:
    """The login file of a use: in our store, else the first of the original's places. None when there is none."""
    own = own_place(config_home, use)
    if own.is_file():
        return Located(own.resolve(), True)
    for path in beside:
        if path.is_file():
            return Located(path.resolve(), False)
    return None


def read(path: Path) -> Login | None:
    """The login in a file; None when it cannot be read or holds no token."""
    login = read_login(files.read_bytes(path, MAX_LOGIN))
    with contextlib.suppress(OSError):
        return replace(login, written=path.stat().st_mtime) if login is not None else None
    return login


def current(path: Path, stem: Path) -> Login | None:
    """The login that the vendor knows: what a renewal could not put in its place goes before the file."""
    login = read(path)
    return rescue.rescued(stem, login) or login


def state_stem(config_home: Path, path: Path) -> Path:
    """Where locks and notes about a login file lie, whichever name led to it."""
    return store(config_home) / ".state" / hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:20]


def note_refusal(stem: Path, login: Login, words: str) -> None:
    """Keep that the vendor takes this refresh token no longer, so that nobody asks again until there is another."""
    stem.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    note = {"v": 1, "t": clock.utc_text(), "token": mark(login.refresh), "words": words[:300]}
    files.replace(stem.with_name(f"{stem.name}.refused"), files.dump(note), mode=0o600)


def refusal(stem: Path, login: Login) -> str:
    """Why the vendor refused to renew exactly this login; "" when it did not."""
    note = files.read_object(stem.with_name(f"{stem.name}.refused"), 1 << 16)
    if note is None or note.get("token") != mark(login.refresh):
        return ""
    return str(note.get("words") or "the vendor refused to renew it")


@dataclass(frozen=True, slots=True)
class Standing:
    """How one login stands: ok, absent, unreadable, expired or refused, in a word and in words."""

    state: str
    words: str = ""
    located: Located | None = None
    login: Login | None = None

    @property
    def usable(self) -> bool:
        """Whether a run may start with it."""
        return self.state == "ok"


def standing(use: CredentialUse, config_home: Path, beside: Iterable[Path] = ()) -> Standing:
    """Look at a login without changing anything or asking anybody."""
    found = locate(use, config_home, beside)
    if found is None:
        return Standing("absent", f"there is no login {use.name} ({own_place(config_home, use)})")
    stem = state_stem(config_home, found.path)
    login = current(found.path, stem)
    if login is None:
        return Standing("unreadable", f"{found.path} holds no login", found)
    if use.kind == "rotating" and (why := refusal(stem, login)):
        return Standing("refused", f"the login {use.name} can no longer be renewed: {why}", found, login)
    if login.expired() and (use.kind == "static_token" or login.static):
        return Standing("expired", f"the login {use.name} ended {when(login.expires)}", found, login)
    return Standing("ok", "", found, login)


def when(moment: float | None) -> str:
    """A time as UTC to the minute; "" for none."""
    if moment is None or not 0 <= moment < 4e11:
        return ""
    text = clock.utc_text(min(moment, 253402300799.0))
    return f"{text[:10]} {text[11:16]} UTC"


def remedy(use: CredentialUse) -> str:
    """What a person does about a login that does not stand well."""
    return f"ptb-tui credentials login {use.name}"


def same_login(one: Standing, other: Standing) -> bool:
    """Whether two uses lead to one login: the same file, account or refresh token."""
    if one.located is None or other.located is None or one.login is None or other.login is None:
        return False
    if one.located.path == other.located.path or one.login.data == other.login.data:
        return True
    return bool(one.login.refresh) and one.login.refresh == other.login.refresh


def keep(config_home: Path, place: Path, data: bytes) -> None:
    """Write a login file of our store whole: 0600 in a folder 0700. The one before stays as `.state/<key>.before`."""
    stem = state_stem(config_home, place)
    for folder in (place.parent.parent, place.parent, stem.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.stat(folder).st_uid == os.getuid():
            os.chmod(folder, 0o700)
    if (before := files.read_bytes(place, MAX_LOGIN)) is not None and before != data:
        files.replace(before_of(stem), before, mode=0o600)
    files.replace(place, data, mode=0o600)
    rescue.drop(stem)


def before_of(stem: Path) -> Path:
    """Where the file lies that was a login's before the last time it was replaced from outside a renewal."""
    return stem.with_name(f"{stem.name}.before")


def secrets_of(logins: Mapping[str, Login]) -> dict[str, str]:
    """Everything in some logins that must be redacted, by a name to show instead."""
    found: dict[str, str] = {}
    for name, login in logins.items():
        parts = ("access", login.access), ("refresh", login.refresh), ("identity", login.identity)
        found |= {f"{name}-{part}": token for part, token in parts if token}
    return found


def dump_secrets(secrets: Mapping[str, str]) -> str:
    """Content of `<scratch>/secrets.json`: what is to be redacted of a run, beside the keys. Kept 0600."""
    return json.dumps({"v": 1, "secrets": dict(secrets)}) + "\n"
