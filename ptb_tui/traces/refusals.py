"""Why a provider refused, as facts of an event: `cause` (a name of `core/causes.toml`), `error_status` (HTTP) and when
to come back: `resetsAt` (seconds since 1970), `resets` (a time as the CLI said it), `resets_clock` (HH:MM on the clock
of the machine that ran the CLI), `retry_in_seconds` where the line has no time.

Only for the error fields of a CLI and the words it puts there itself; never for what an agent said or printed.
"""

from __future__ import annotations

import calendar
import re
import time
from typing import Any

from ptb_tui.traces.blocks import money
from ptb_tui.traces.objects import read_line

LIMIT, CREDENTIAL = "provider_limit", "credential"
_STATUS = {401: CREDENTIAL, 402: LIMIT, 403: CREDENTIAL, 429: LIMIT}
_LIMIT_TYPES = frozenset(("usage_limit_reached", "insufficient_quota", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"))
_CREDENTIAL_TYPES = frozenset(
    ("invalid_api_key", "API_KEY_INVALID", "UNAUTHENTICATED", "PERMISSION_DENIED", "FatalAuthenticationError")
)
_LOOK = 4000  # characters of a message that are read
_LONGEST = 400 * 86_400  # seconds until a limit ends; more is no time but nonsense
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_SPAN = re.compile(r"\b(?:try again|retry) in ([0-9][0-9a-z., ]{0,80})", re.I)
_PART = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) ?(d|h|m|s)(?:ays?|ours?|inutes?|in|econds?|ec)?(?![a-z])", re.I)
_AT = re.compile(r"\btry again at ([A-Za-z0-9:, ]{3,40})(?:\.|$)", re.I | re.M)
_CLOCK = re.compile(r"(1[0-2]|0?[1-9]):([0-5][0-9]) ?([AP])M", re.I)


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
    cause = _STATUS.get(status)
    return {"error_status": status, **({"cause": cause} if cause else {})}


def by_type(name: object) -> dict[str, Any]:
    """The facts of a vendor's name for an error."""
    if not isinstance(name, str) or not name or len(name) > 80:
        return {}
    known = ((_LIMIT_TYPES, LIMIT), (_CREDENTIAL_TYPES, CREDENTIAL))
    cause = next(({"cause": cause} for group, cause in known if name in group), {})
    return {"error_type": name, **cause}


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
    return {}


def _clock(text: str) -> dict[str, Any]:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return {}
    hour = int(match[1]) % 12 + (12 if match[3] in "Pp" else 0)
    return {"resets_clock": f"{hour:02}:{match[2]}"}


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
        if found and ("cause" in found or "error_type" not in facts):
            facts.update(found)
    facts = {**by_status(error.get("code")), **facts}
    moment = error.get("resets_at")
    if isinstance(moment, int) and not isinstance(moment, bool) and 10**9 <= moment < 10**11:
        return {**facts, "resetsAt": moment}
    return {**facts, **after(error.get("resets_in_seconds"), stamp)}
