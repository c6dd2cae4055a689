"""Why a provider refused, as facts of an event: `cause` (a name of `core/causes.toml`), `trouble` (one of `TROUBLES`,
finer than the cause), `error_status` (HTTP) and when to come back: `resetsAt` (seconds since 1970), `resets` (a time as
the CLI said it), `resets_clock` (HH:MM on the clock of the machine that ran the CLI), `retry_in_seconds` where the line
has no time.

Only for the error fields of a CLI and the words it puts there itself; never for what an agent said or printed.
"""

from __future__ import annotations

import calendar
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from ptb_tui.traces.blocks import money
from ptb_tui.traces.objects import read_line

LIMIT, CREDENTIAL, REFUSED = "provider_limit", "credential", "model_refusal"
USAGE_LIMIT, QUOTA, RATE_LIMIT, LOGIN, MODEL, SERVER, NETWORK = (
    "usage_limit", "quota", "rate_limit", "login", "model_refusal", "server", "network",
)  # fmt: skip
BACKGROUND = "background"
TROUBLES = (USAGE_LIMIT, QUOTA, RATE_LIMIT, LOGIN, MODEL, SERVER, NETWORK, BACKGROUND)
_CAUSES = {USAGE_LIMIT: LIMIT, QUOTA: LIMIT, RATE_LIMIT: LIMIT, LOGIN: CREDENTIAL, MODEL: REFUSED}
_STATUS = {401: LOGIN, 402: QUOTA, 403: LOGIN, 429: RATE_LIMIT}
_TYPES = {
    "usage_limit_reached": USAGE_LIMIT,
    "insufficient_quota": QUOTA,
    "billing_error": QUOTA,
    "billing_hard_limit_reached": QUOTA,
    "budget_exceeded": QUOTA,
    "spending_limit": QUOTA,
    "rate_limit": RATE_LIMIT,
    "rate_limit_error": RATE_LIMIT,
    "rate_limit_exceeded": RATE_LIMIT,
    "RESOURCE_EXHAUSTED": RATE_LIMIT,
    "authentication_failed": LOGIN,
    "authentication_error": LOGIN,
    "oauth_org_not_allowed": LOGIN,
    "invalid_api_key": LOGIN,
    "token_expired": LOGIN,
    "API_KEY_INVALID": LOGIN,
    "UNAUTHENTICATED": LOGIN,
    "PERMISSION_DENIED": LOGIN,
    "FatalAuthenticationError": LOGIN,
    "content_filter": MODEL,
    "content-filter": MODEL,
    "content_policy_violation": MODEL,
    "refusal": MODEL,
    "server_error": SERVER,
    "overloaded": SERVER,
    "overloaded_error": SERVER,
    "connection_failed": NETWORK,
}
_LOOK = 4000  # characters of a message that are read
_LONGEST = 400 * 86_400  # seconds until a limit ends; more is no time but nonsense
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_SPAN = re.compile(r"\b(?:try again|retry|resets) in ([0-9][0-9a-z., ]{0,80})", re.I)
_PART = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) ?(d|h|m|s)(?:ays?|ours?|inutes?|in|econds?|ec)?(?![a-z])", re.I)
_AT = re.compile(r"\btry again at ([A-Za-z0-9:, ]{3,40})(?:\.|$)", re.I | re.M)
_CLOCK = re.compile(r"(1[0-2]|0?[1-9])(?::([0-5][0-9]))? ?([AP])M", re.I)
_RESETS = re.compile(
    r"\bresets (?:at )?((?:[A-Z][a-z]{2,8} [0-9]{1,2}(?:,? at |, | ))?[0-9]{1,2}(?::[0-9]{2})? ?[AaPp][Mm])"
    r"(?: \(([A-Za-z][A-Za-z0-9_+/-]{0,40})\))?"
)


def known(trouble: str) -> dict[str, Any]:
    """The facts of a kind of trouble."""
    cause = _CAUSES.get(trouble)
    return {"trouble": trouble, **({"cause": cause} if cause else {})}


def join(*parts: dict[str, Any]) -> dict[str, Any]:
    """Facts together, the later ones first; only a mere rate limit never replaces a limit that is better known."""
    facts: dict[str, Any] = {}
    for part in parts:
        finer = facts.get("trouble") in (USAGE_LIMIT, QUOTA) and part.get("trouble") == RATE_LIMIT
        facts = {**facts, **part, **({"trouble": facts["trouble"]} if finer else {})}
    return facts


def seconds_of(stamp: str) -> int | None:
    """`YYYY-MM-DDTHH:MM:SSZ` as seconds since 1970; None when it is none."""
    try:
        return calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return None


def by_status(status: object) -> dict[str, Any]:
    """The facts of an HTTP status."""
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        return {}
    trouble = _STATUS.get(status) or (SERVER if status >= 500 else "")
    return {"error_status": status, **(known(trouble) if trouble else {})}


def by_type(name: object) -> dict[str, Any]:
    """The facts of a vendor's name for an error."""
    if not isinstance(name, str) or not name or len(name) > 80:
        return {}
    return {"error_type": name, **(known(_TYPES[name]) if name in _TYPES else {})}


def after(delay: object, stamp: str) -> dict[str, Any]:
    """When a number of seconds from the time of the line has passed."""
    number = float(delay) if isinstance(delay, str) and re.fullmatch(r"[0-9]{1,8}(\.[0-9]{1,6})?", delay) else delay
    wait = money(number)
    if wait is None or wait > _LONGEST:
        return {}
    start = seconds_of(stamp)
    return {"retry_in_seconds": wait} if start is None else {"resetsAt": start + round(wait)}


def by_words(message: str, stamp: str) -> dict[str, Any]:
    """When to come back, in the words that CLIs use for it."""
    message = message[:_LOOK]
    if span := _SPAN.search(message):
        total, position = 0.0, 0
        while part := _PART.match(span[1], position):
            total += float(part[1]) * _UNITS[part[2].lower()]
            position = part.end()
            while span[1][position : position + 1] in (" ", ","):
                position += 1
        return after(total, stamp) if position else {}
    if at := _AT.search(message):
        return {"resets": at[1].strip(), **_clock(at[1].strip())}
    if resets := _RESETS.search(message):
        said, zone = resets[1], resets[2]
        if not zone:
            return {"resets": said, **_clock(said)}
        moment = _in_zone(said, zone, stamp)
        return {"resets": f"{said} ({zone})", **({"resetsAt": moment} if moment is not None else {})}
    return {}


def _clock_of(text: str) -> tuple[int, int] | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    return int(match[1]) % 12 + (12 if match[3] in "Pp" else 0), int(match[2] or 0)


def _clock(text: str) -> dict[str, Any]:
    clock = _clock_of(text)
    return {"resets_clock": f"{clock[0]:02}:{clock[1]:02}"} if clock else {}


def _in_zone(said: str, zone: str, stamp: str) -> int | None:
    """When a clock in a zone next shows a time, after the time of the line."""
    start, clock = seconds_of(stamp), _clock_of(said)
    if start is None or clock is None:
        return None
    try:
        where = UTC if zone == "UTC" else ZoneInfo(zone)
        now = datetime.fromtimestamp(start, where)
        then = now.replace(hour=clock[0], minute=clock[1], second=0)
        if then.timestamp() <= start:
            then += timedelta(days=1)  # on the wall: the same time tomorrow, whatever the clocks do tonight
        return round(then.timestamp())
    except (KeyError, ValueError, OSError, OverflowError):  # no such zone
        return None


def by_body(text: object, stamp: str) -> dict[str, Any]:
    """The facts of an error body, as the vendors write it: JSON with `error: {type, code, status, resets_at …}`."""
    if not isinstance(text, str):
        return {}
    (body, *_) = read_line(text.encode("utf-8", "replace"), cut=False)
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return {}
    facts: dict[str, Any] = {}
    details = error.get("details")
    reasons = (
        [part.get("reason") for part in details[:20] if isinstance(part, dict)] if isinstance(details, list) else []
    )
    for name in (error.get("type"), error.get("status"), error.get("code"), *reasons):
        found = by_type(name)
        if found and ("trouble" in found or "error_type" not in facts):
            facts = join(facts, found)
    facts = join(by_status(error.get("code")), facts)
    moment = error.get("resets_at")
    if isinstance(moment, int) and not isinstance(moment, bool) and 10**9 <= moment < 10**11:
        return {**facts, "resetsAt": moment}
    return {**facts, **after(error.get("resets_in_seconds"), stamp)}
