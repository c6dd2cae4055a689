"""One request to an OpenAI-compatible endpoint (chat completions), by the `openai` package; what it says, or why not.

The package is loaded at the first request. Redirects are not followed: the key goes to the one base URL and nowhere
else. What an endpoint answers is read as data of any shape.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ptb_tui.core.errors import StepError
from ptb_tui.core.text import sanitize
from ptb_tui.judging.engines.desk import Asked, asked

RETRIES = 4  # of limits and failures of the server, with pauses that grow or that the server names
CONNECT_S = 20.0
MAX_ANSWER = 32 << 20
_REFUSED = (400, 404, 405, 415, 422, 501)  # not this request; perhaps a plainer one


@dataclass(frozen=True, slots=True)
class Used:
    """Tokens and dollars of one answer, as far as the endpoint says. `fresh` input did not come from a cache."""

    fresh: int | None = None
    cached: int = 0
    output: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """An answer. `message` is what goes back into the conversation; `ended` is the endpoint's reason of the end."""

    text: str
    calls: tuple[Asked, ...]
    message: dict[str, Any]
    ended: str = ""
    model: str = ""
    used: Used = Used()


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer. `status` 0: none of HTTP. `cause` as in `core/causes.toml`, "" where a plainer request may do."""

    words: str
    status: int = 0
    cause: str = ""


class Endpoint(Protocol):
    """Answers a request, the body of a chat completion, within a time."""

    @property
    def version(self) -> str:
        """Of what asks."""
        ...

    def ask(self, body: Mapping[str, Any], seconds: float) -> Said | Failed:
        """Total, but for StepError when the package is not there."""
        ...

    def close(self) -> None:
        """End its connections; the next request opens others."""
        ...


class OpenAIEndpoint:
    """The endpoint at a base URL. `key` may be empty, for servers that want none."""

    def __init__(self, base_url: str, key: str, retries: int = RETRIES) -> None:
        self._base, self._key, self._retries = base_url, key, retries
        self._client: Any = None

    @property
    def version(self) -> str:
        """Version of the package."""
        from importlib import metadata

        try:
            return f"openai {metadata.version('openai')}"
        except metadata.PackageNotFoundError:
            return ""

    def _open(self, seconds: float) -> Any:
        try:
            import openai
        except ImportError as error:
            words = "the Python package `openai`, by which judges of engine openai_api ask, is not installed"
            raise StepError(words, cause="cli_missing", hint="install `openai` beside ptb-tui at this site") from error
        timeout = openai.Timeout(seconds, connect=min(seconds, CONNECT_S))
        if self._client is None:
            client = openai.DefaultHttpxClient(follow_redirects=False)
            self._client = openai.OpenAI(
                base_url=self._base, api_key=self._key or "none", max_retries=self._retries, http_client=client
            )
        return self._client.with_options(timeout=timeout)

    def close(self) -> None:
        """End its connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def ask(self, body: Mapping[str, Any], seconds: float) -> Said | Failed:
        """Have one answer. The time holds for all of it, however slowly it comes."""
        client = self._open(seconds)
        found: list[Said | Failed] = []
        thread = threading.Thread(target=lambda: found.append(self._ask(client, body)), daemon=True)
        thread.start()
        thread.join(seconds)
        if found:
            return found[0]
        if not thread.is_alive():
            return Failed("the request ended without an answer", cause="provider_error")
        self.close()  # so that the thread ends, which still reads
        return Failed(f"no answer within {seconds:.0f} s", cause="judge_timeout")

    def _ask(self, client: Any, body: Mapping[str, Any]) -> Said | Failed:
        import openai

        try:
            raw = client.chat.completions.with_raw_response.create(**body)
            data = raw.http_response.content
        except openai.APIStatusError as error:
            return refusal(error.status_code, _words(error.message, self._key))
        except openai.APITimeoutError:
            return Failed("the endpoint did not answer in time", cause="provider_error")
        except openai.APIConnectionError as error:
            words = _words(str(error.__cause__ or error), self._key)
            return Failed(f"the endpoint was not reached: {words}", cause="provider_unreachable")
        except openai.OpenAIError as error:
            return Failed(_words(str(error), self._key), cause="provider_error")
        except (TypeError, ValueError, RuntimeError, OSError) as error:  # nothing that the package has a name for
            return Failed(_words(f"the answer cannot be read: {error}", self._key), cause="provider_error")
        found = read_answer(data)
        return replace(found, words=_words(found.words, self._key)) if isinstance(found, Failed) else found


def _words(text: str, key: str) -> str:
    if key and len(key) > 5:
        text = text.replace(key, "[redacted]")
    return sanitize(text, limit=400, newlines=False)


def refusal(status: int, words: str) -> Failed:
    """What a status means. A 400 may be answered by a plainer request, a 401 by nothing."""
    said = f"HTTP {status}: {words}"
    if status in _REFUSED:
        return Failed(said, status)
    cause = "provider_error" if status >= 500 else "judge_failed"
    if status in (401, 403):
        cause = "credential"
    elif status in (402, 429):
        cause = "provider_limit"
    elif 300 <= status < 400:
        said = f"HTTP {status}: the endpoint sends elsewhere, which is not followed"
    return Failed(said, status, cause)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 48 else None


def used_of(value: object) -> Used:
    """The counts of an answer's `usage`; its input includes what came from a cache, here it does not."""
    table = _table(value)
    total, output = _count(table.get("prompt_tokens")), _count(table.get("completion_tokens"))
    cached = min(_count(_table(table.get("prompt_tokens_details")).get("cached_tokens")) or 0, total or 0)
    cost = table.get("cost")
    dollars = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e6 else None
    return Used(None if total is None else total - cached, cached, output, dollars)


def _text(content: object) -> str:
    """The text of a message; some endpoints send it in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(_table(part).get("text") or "") for part in parts)


def read_answer(data: bytes) -> Said | Failed:
    """An answer from its bytes; total."""
    if len(data) > MAX_ANSWER:
        return Failed("the answer is too large", cause="provider_error")
    try:
        value = _table(json.loads(data))
    except (ValueError, RecursionError):
        return Failed("the answer is no JSON", cause="provider_error")
    choices: Any = value.get("choices")
    choice = _table(choices[0]) if isinstance(choices, list) and choices else {}
    message = _table(choice.get("message"))
    if not message:
        words = _words(json.dumps(value.get("error") or "it holds no message"), "")
        return Failed(f"the answer is no chat completion: {words}", cause="provider_error")
    text, entries = _text(message.get("content")), message.get("tool_calls")
    calls = tuple(
        asked(str(entry.get("id") or f"call_{number}"), function.get("name"), function.get("arguments"))
        for number, entry in enumerate(map(_table, entries if isinstance(entries, list) else ()))
        if (function := _table(entry.get("function")))
    )
    return Said(
        text,
        calls,
        _again(text, calls),
        sanitize(str(choice.get("finish_reason") or ""), limit=40, newlines=False),
        sanitize(str(value.get("model") or ""), limit=120, newlines=False),
        used_of(value.get("usage")),
    )


def _again(text: str, calls: Sequence[Asked]) -> dict[str, Any]:
    """The message as it goes back: what is known of it, and the calls under the ids that their results will name."""
    if not calls:
        return {"role": "assistant", "content": text}
    sent = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name or "none", "arguments": json.dumps(dict(call.arguments))},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": sent}
