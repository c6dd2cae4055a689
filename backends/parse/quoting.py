"""Values inside HTCondor's submit description and ClassAd strings. What cannot be written safely is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ptb_tui.core.errors import ConfigError

_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_SECRET = re.compile(r"(?:^|_)(?:KEYS?|APIKEY|TOKENS?|SECRETS?|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.I)


def checked(value: str, what: str) -> str:
    """The value, or ConfigError when it holds a line break or another control character, or cannot be encoded."""
    if _CONTROL.search(value):
        raise ConfigError(f"{what}: a line break or control character in {value!r}", hint="change the name or path")
    return value


def checked_environment(env: Mapping[str, str]) -> Mapping[str, str]:
    """The variables, or ConfigError: a job's environment is public on a cluster, so keys have no place in it."""
    for name, value in env.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ConfigError(f"environment of a job: {name!r} is no name of a variable")
        if _SECRET.search(name):
            raise ConfigError(
                f"environment of a job: {name} looks like a secret, and every user of a cluster can read it there",
                hint="put it into the site's .env, which is read on the node",
            )
        checked(value, name)
    return env


def macro_safe(value: str, what: str) -> str:
    """The value with `$` written so that condor_submit does not expand it.

    `$$(` and `$$[` would be expanded a second time when the job is matched, so they are refused.
    """
    if "$$(" in value or "$$[" in value:
        raise ConfigError(f"{what}: HTCondor gives $$( and $$[ a meaning of their own: {value!r}")
    return checked(value, what).replace("$", "$(DOLLAR)")


def whole_line(value: str, what: str) -> str:
    """A value that stands alone after `=`: no blanks at its ends, no backslash at the end (it would join lines)."""
    if not value or value != value.strip() or value.endswith("\\"):
        raise ConfigError(f"{what}: HTCondor cannot take {value!r} as it is", hint="change the name or path")
    return checked(value, what)


def plain(value: str, what: str) -> str:
    """A whole line in which nothing is expanded."""
    return macro_safe(whole_line(value, what), what)


def _word(value: str) -> str:
    doubled = value.replace('"', '""')
    if doubled and not re.search(r"[\s']", doubled):
        return doubled
    return "'" + doubled.replace("'", "''") + "'"


def arguments(argv: Sequence[str]) -> str:
    """The value of `arguments` in the newer syntax: any text without line breaks comes out again word by word."""
    return '"' + " ".join(macro_safe(_word(word), "arguments") for word in argv) + '"'


def environment(env: Mapping[str, str]) -> str:
    """The value of `environment` in the newer syntax."""
    pairs = (macro_safe(f"{name}={_word(value)}", name) for name, value in checked_environment(env).items())
    return '"' + " ".join(pairs) + '"'


def classad_string(value: str, what: str) -> str:
    """A ClassAd string literal."""
    inside = checked(value, what).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + macro_safe(inside, what) + '"'
