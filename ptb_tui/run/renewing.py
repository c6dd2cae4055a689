"""Renewing a login of the site: one upstream request for everybody who needs it (research: rotating logins, design §5).

Internal verb `renew-login SCRATCH`, started by a companion in a session of its own, so that killing the companion
between the vendor's answer and our file loses nothing: a refresh token can be used once. Takes the login's lock, reads
again, takes the room for the answer, asks only if nobody has, replaces the file atomically. Standard library alone.

Exit codes: 0 the file holds a token to hand out · 1 try again later · 3 the vendor takes this login no longer.
"""

from __future__ import annotations

import http.client
import json
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.core.errors import ConfigError, PtbError, UsageError
from ptb_tui.supplies import credentials, leases, rescue
from ptb_tui.supplies.logins import PLACEHOLDER, Login, mark, read_login, renewed

AHEAD_S = 30.0  # a token that ends this soon is treated as ended
LEAST_AGE_S = 600.0  # a token younger than this is not renewed for the asking; agents know the way to ask
ANSWER_S = 45.0  # for the vendor's answer, connection included
PATIENCE_S = 120.0  # after which a holder of the lock that gives no sign is passed over
LONGEST_S = PATIENCE_S + 10.0  # or nobody would ever see it pass
RENEWING = "renewing.json"  # in the scratch: who asks the vendor just now, for whoever ends what a step left
_ANSWER_BYTES = 1 << 17
_FINAL = (400, 401, 403)
_OVER = ("invalid_grant", "refresh_token_")  # RFC 6749 §5.2, and how the codes begin that Codex's vendor has of its own


@dataclass(frozen=True, slots=True)
class Broker:
    """`broker` of `companion.json`."""

    login: Path  # the site's login file
    state: Path  # stem of its lock
    token_url: str
    client_id: str
    secret: str  # path of the requests that are ours
    port: int  # under which the sandbox finds it on its own loopback
    listen: bool  # whether that is the host's loopback too; else requests come through the gateway alone


def broker_of(found: object, source: Path) -> Broker | None:
    """Read the section. ConfigError naming what is wrong; None when there is no broker."""
    if found is None:
        return None
    texts = {}
    for name in ("login", "state", "token_url", "client_id", "secret"):
        value = found.get(name) if isinstance(found, dict) else None
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{source}: broker.{name} must be a text")
        texts[name] = value
    assert isinstance(found, dict)
    port, listen = found.get("port"), found.get("listen")
    if not isinstance(port, int) or not 0 < port < 65536:
        raise ConfigError(f"{source}: broker.port must be a port")
    if not isinstance(listen, bool):
        raise ConfigError(f"{source}: broker.listen must be true or false")
    if not texts["secret"].startswith("/") or len(texts["secret"]) < 24:
        raise ConfigError(f"{source}: broker.secret must be a path that cannot be guessed")
    return Broker(
        Path(texts["login"]),
        Path(texts["state"]),
        texts["token_url"],
        texts["client_id"],
        texts["secret"],
        port,
        listen,
    )


def due(login: Login, seen: str, now: float | None = None) -> bool:
    """Whether the vendor is to be asked for somebody who has the token of mark `seen`.

    Not while there is another one that is good, nor again and again for the same young one.
    """
    moment = time.time() if now is None else now
    if login.expired(moment, AHEAD_S):
        return True
    if seen and seen != mark(login.access):
        return False
    if login.issued is not None:
        return moment - login.issued >= LEAST_AGE_S
    # A token that tells nothing is as old as its file; one "from the future" is older than it says.
    return login.written is None or abs(moment - login.written) >= LEAST_AGE_S


def seen_by(refresh_token: str) -> str:
    """The mark of the access token that the holder of a placeholder has; "" for anything else."""
    return refresh_token.removeprefix(PLACEHOLDER) if refresh_token.startswith(PLACEHOLDER) else ""


class _Refused(Exception):
    """The vendor says that this login is over."""


def _ask(broker: Broker, login: Login) -> dict[str, Any]:
    """The vendor's answer. OSError or ValueError when there is none of use, _Refused when it is a final no."""
    if not login.refresh:
        raise _Refused("the login has no refresh token")
    said = {"client_id": broker.client_id, "grant_type": "refresh_token", "refresh_token": login.refresh}
    request = urllib.request.Request(
        broker.token_url,
        json.dumps(said).encode(),
        {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "ptb-tui"},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            found = json.loads(answer.read(_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            words = _why(error.read(4096))
        if error.code in _FINAL and words.startswith(_OVER):
            raise _Refused(f"{error.code} {words}") from error
        # Anything else may be a proxy's, a portal's, or a bad day of the vendor's.
        raise OSError(f"the token endpoint answers {error.code} {words}".strip()) from error
    if not isinstance(found, dict):
        raise ValueError("the token endpoint's answer is no object")
    return found


def _why(body: bytes) -> str:
    """A short word of the vendor's, never anything that could be a token."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = (found.get("error") or found.get("code")) if isinstance(found, dict) else None
    word = error.get("code") if isinstance(error, dict) else error
    if isinstance(word, str) and len(word) < 60 and word.replace("_", "").replace("-", "").isalpha():
        return word
    return ""


def renew(broker: Broker, seen: str, scratch: Path) -> int:
    """Renew if it is due and nobody has; returns the exit code."""
    with leases.held(broker.state, PATIENCE_S, LONGEST_S) as lease:
        if lease is None:
            _say("the login's lock was not to be had")
            return 1
        signal.alarm(int(PATIENCE_S * 0.75))  # nobody works on after the lock may have been passed on
        file = credentials.read(broker.login)
        if file is None:
            _say(f"{broker.login} holds no login")
            return 3
        login = rescue.rescued(broker.state, file)
        if login is not None and _put_back(broker, login):
            file = login
        login = login or file
        if not due(login, seen):
            return 0
        if why := credentials.refusal(broker.state, login):
            _say(f"refused before: {why}")
            return 3
        # Written down before anything can be lost, and by the one that has the lock alone: the shim spares us.
        files.replace(scratch / RENEWING, files.dump(clock.this_process().to_json()))
        try:
            room = rescue.Room(broker.login)
        except OSError as error:
            _say(f"nobody is asked, because {broker.login.parent} has no room for the answer: {error.strerror}")
            return 1
        with room:
            return _through(broker, file, login, room)


def _through(broker: Broker, file: Login, login: Login, room: rescue.Room) -> int:
    """Ask for what comes after `login` and keep it; `file` is what stands in the login's place."""
    try:
        data = renewed(login, _ask(broker, login), clock.utc_text())
    except _Refused as error:
        if _another(broker, file):
            return 0
        credentials.note_refusal(broker.state, login, str(error))
        _say(f"the vendor refuses: {error}")
        return 3
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        _say(str(error))
        return 1
    now = credentials.read(broker.login)
    if now is not None and now.refresh != file.refresh:
        return 0  # a person signed in meanwhile: theirs is the login now
    try:
        if now is None:
            raise FileNotFoundError(2, "it cannot be read any more")
        room.become(data)
        rescue.drop(broker.state)
        _say(f"renewed at {clock.utc_text()}")
    except OSError as error:
        _say(f"{broker.login} cannot be replaced: {error.strerror}")
        try:
            _say(f"renewed at {clock.utc_text()}; kept as {rescue.keep(broker.state, file, data)}")
        except OSError as worse:
            room.leave()
            _say(f"nor can it be kept beside the locks: {worse.strerror}; the new login may be in {room.path}")
            return 1
    new = read_login(data)
    if new is None or new.expired(ahead=AHEAD_S):
        _say("what the vendor gave has ended already")
        return 1  # not at once again
    return 0


def _put_back(broker: Broker, login: Login) -> bool:
    """Put what was kept aside into the login's place, if that is possible by now."""
    try:
        with rescue.Room(broker.login) as room:
            room.become(login.data)
    except OSError as error:
        _say(f"{broker.login} still cannot be replaced: {error.strerror}")
        return False
    rescue.drop(broker.state)
    return True


def _another(broker: Broker, login: Login) -> bool:
    """Whether a person signed in meanwhile: theirs is the login now."""
    now = credentials.read(broker.login)
    return now is None or now.refresh != login.refresh


def _say(words: str) -> None:
    print(f"renew: {words}", file=sys.stderr)


def main(argv: Sequence[str]) -> int:
    """Internal verb: argv is `[scratch, mark]`."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # what was begun here is brought to its end
    try:
        if len(argv) != 2:
            raise UsageError("renew-login takes the scratch of a step and a mark")
        path = Path(argv[0]) / "companion.json"
        broker = broker_of((files.read_object(path) or {}).get("broker"), path)
        if broker is None:
            raise ConfigError(f"{path} names no broker")
        return renew(broker, argv[1], path.parent)
    except PtbError as error:
        _say(error.message)
        return 1
    except OSError as error:
        _say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
