"""The paid grader of a task: which key and which address, where that comes from, and what a site lacks for it.

`grader` in `[endpoints]` of a sweep or of the site names another base URL than the provider's, for any endpoint that
speaks OpenAI's chat completions; else OPENAI_BASE_URL or OPENROUTER_BASE_URL of `.env` does. It holds for the final
evaluation and, so that both measure with the same grader, for what agents run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ptb_tui.core.errors import ConfigError, StepError
from ptb_tui.core.keys import OPENAI, OPENROUTER, grades_by_openrouter
from ptb_tui.sandbox.bubblewrap import PORT
from ptb_tui.sandbox.egress import rule

NAME = "grader"  # in [endpoints]
VARIABLE = "PTB_GRADER_URL"  # as the evaluation scripts and `phases_of` find it
OPENAI_URL, OPENROUTER_URL = "https://api.openai.com/v1", "https://openrouter.ai/api/v1"
LOOPBACK = ("127.0.0.1", "localhost")
_OF_ENV = {OPENAI: "OPENAI_BASE_URL", OPENROUTER: "OPENROUTER_BASE_URL"}


@dataclass(frozen=True, slots=True)
class Grader:
    """`key` is the name of the setting; `allow` the gateway's only rule; `reach` a port of this machine's loopback."""

    key: str
    url: str
    allow: str
    reach: tuple[int, ...] = ()


def address(url: str) -> tuple[str, int]:
    """Host and port of a base URL. ConfigError for what is none."""
    wrong = f"the grader's endpoint {url[:200]!r} is no URL http://HOST[:PORT][/PATH] or https://…"
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ConfigError(wrong) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or not port:
        raise ConfigError(wrong, hint="keys belong into .env; [endpoints] of the sweep or of the site has the URL")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    rule(f"{host}:{port}")
    if parts.hostname in LOOPBACK and port == PORT:
        raise ConfigError(f"the grader's endpoint {url[:200]!r}: port {PORT} of a sandbox's loopback is the gateway's")
    return host, port


def grader_of(required: Sequence[str], values: Mapping[str, str]) -> Grader | None:
    """The grader of a task that requires these keys; None when it requires none.

    `values` are the site's settings, and under `VARIABLE` what `[endpoints]` said. StepError(cause="credential")
    without a key, ConfigError for a URL that is none.
    """
    if not required:
        return None
    key = OPENROUTER if grades_by_openrouter(required, values) else required[0]
    if not values.get(key):
        both = f"{key} or {OPENROUTER}" if key == OPENAI else key
        raise StepError(f"the grader needs {both}", cause="credential", hint=f"put {key}=… into .env")
    url = values.get(VARIABLE) or values.get(_OF_ENV.get(key, ""), "")
    url = (url or (OPENROUTER_URL if key == OPENROUTER else OPENAI_URL)).strip().rstrip("/")
    host, port = address(url)
    if host in LOOPBACK:
        return Grader(key, url, f"{LOOPBACK[0]}:{port}", (port,))
    return Grader(key, url, f"{host}:{port}")


def named(*tables: Mapping[str, str]) -> dict[str, str]:
    """The grader's entry of a run's `endpoints`, of the first table that names one."""
    url = next((table[NAME].strip().rstrip("/") for table in tables if NAME in table), "")
    return {NAME: url} if url else {}


def with_endpoint(values: Mapping[str, str], endpoints: Mapping[str, str]) -> dict[str, str]:
    """The settings as `grader_of` reads them, for a run with these endpoints."""
    return {**values, VARIABLE: endpoints.get(NAME) or values.get(VARIABLE, "")}
