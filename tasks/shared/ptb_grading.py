"""A paid grader: which endpoint, retries, replies kept on disk, and a clear end when it cannot grade everything.

What the grader fails to say is never scored: the evaluation ends incomplete instead, and a repeat asks only for what
is missing, since replies that could be used are kept.
"""

import hashlib
import importlib
import json
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ptb_items import InputMissing

OPENROUTER = "https://openrouter.ai/api/v1"
MODEL = "gpt-5-mini"
_TIMEOUT_S = 900.0
_NO_USE = ("insufficient_quota", "invalid_api_key", "billing_hard_limit_reached")


class GradingIncomplete(Exception):
    """Not everything could be graded."""


@dataclass(frozen=True)
class Endpoint:
    """Where the grader is; `base_url` None is the package's own default, which OPENAI_BASE_URL changes."""

    key: str
    model: str
    base_url: Optional[str] = None


def endpoint(environ: Mapping[str, str]) -> Endpoint:
    """OpenAI where its key is set, else OpenRouter. Raises InputMissing without any key."""
    if environ.get("OPENAI_API_KEY"):
        return Endpoint(environ["OPENAI_API_KEY"], MODEL)
    if environ.get("OPENROUTER_API_KEY"):
        url = environ.get("OPENROUTER_BASE_URL") or OPENROUTER
        return Endpoint(environ["OPENROUTER_API_KEY"], "openai/" + MODEL, url)
    raise InputMissing("grading needs OPENAI_API_KEY or OPENROUTER_API_KEY")


@dataclass(frozen=True)
class Question:
    """One request to the grader: its messages, its options, and how a reply is read (None: not usable).

    `waits` are the seconds after each failed call, one for every try. After a reply that cannot be used the next
    try follows at once.
    """

    messages: Sequence[Mapping[str, str]]
    options: Mapping[str, Any]
    read: Callable[[str], Any]
    waits: Sequence[float]


@dataclass(frozen=True)
class Grade:
    """What came of a question. `failed` is a reason that lies with the provider; without it and without a value the
    grader has answered, but not usably."""

    value: Any = None
    reply: str = ""
    failed: str = ""


class Grader:
    """Asks questions, several at a time, and keeps usable replies in `cache` (None: keeps nothing)."""

    def __init__(self, where: Endpoint, cache: Optional[Path], workers: int) -> None:
        openai = importlib.import_module("openai")
        self._openai = openai
        self._where = where
        self._cache = cache
        self._workers = max(1, workers)
        self._refused = threading.Event()
        self._plain = threading.Event()  # the endpoint takes no reasoning effort
        self._client = openai.OpenAI(api_key=where.key, base_url=where.base_url, timeout=_TIMEOUT_S, max_retries=0)
        self._words = ""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _place(self, question: Question) -> Optional[Path]:
        if self._cache is None:
            return None
        asked = json.dumps([MODEL, list(question.messages), dict(question.options)], sort_keys=True)
        name = hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()
        return self._cache / name[:2] / (name + ".json")

    def _kept(self, place: Optional[Path], question: Question) -> Optional[Grade]:
        if place is None or not place.is_file():
            return None
        try:
            reply = json.loads(place.read_text(encoding="utf-8"))["reply"]
            value = question.read(reply)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return None if value is None else Grade(value, reply)

    def _keep(self, place: Optional[Path], reply: str) -> None:
        if place is None:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=str(place.parent), prefix=".new")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"reply": reply, "model": self._where.model}, file)
        os.replace(name, str(place))

    def _call(self, question: Question) -> str:
        options = dict(question.options)
        if self._plain.is_set():
            options.pop("reasoning_effort", None)
        made = self._client.chat.completions.create(
            model=self._where.model, messages=list(question.messages), **options
        )
        return (made.choices[0].message.content or "") if made.choices else ""

    def _refusal(self, error: Exception) -> str:
        """Why no further question is of use; "" when another try may succeed."""
        code = str(getattr(error, "code", "") or "")
        if isinstance(error, (self._openai.AuthenticationError, self._openai.PermissionDeniedError)) or code in _NO_USE:
            return "{}: {}".format(type(error).__name__, error)
        return ""

    def ask(self, question: Question) -> Grade:
        """One question, with all its tries."""
        place = self._place(question)
        kept = self._kept(place, question)
        if kept is not None:
            return kept
        grade = Grade(failed="not asked")
        for wait in question.waits:
            if self._refused.is_set():
                return Grade(failed=self._words)
            try:
                reply = self._call(question)
            except self._openai.OpenAIError as error:
                words = "{}: {}".format(type(error).__name__, error)
                if self._refusal(error):
                    self._words = words
                    self._refused.set()
                    return Grade(failed=words)
                bad = isinstance(error, self._openai.BadRequestError)
                if bad and "reasoning" in str(error).lower() and not self._plain.is_set():
                    self._plain.set()
                    continue
                grade = Grade(reply=words) if bad else Grade(failed=words)
                time.sleep(wait)
                continue
            value = question.read(reply)
            if value is not None:
                self._keep(place, reply)
                return Grade(value, reply)
            grade = Grade(reply=reply)
        return grade

    def ask_all(self, questions: Sequence[Question]) -> List[Grade]:
        """All grades, in the order of the questions. GradingIncomplete when the provider failed for any of them."""
        with ThreadPoolExecutor(self._workers) as pool:
            grades = list(pool.map(self.ask, questions))
        failed = [grade for grade in grades if grade.failed]
        if failed:
            raise incomplete(len(grades) - len(failed), len(grades), failed[0].failed)
        return grades


def incomplete(graded: int, of: int, words: str) -> GradingIncomplete:
    """The error that says how far grading came."""
    return GradingIncomplete("graded {} of {}, grading incomplete: {}".format(graded, of, words))


def waits(first: float, tries: int, double: bool) -> Tuple[float, ...]:
    """The waits of a question: doubling from `first`, or its multiples."""
    return tuple(first * (2**number if double else number + 1) for number in range(tries))


def warn(words: str) -> None:
    """One line for the log."""
    print(words, file=sys.stderr, flush=True)


def options_for(model: str, small: Mapping[str, Any]) -> Dict[str, Any]:
    """Options of a request: models that reason get room for it, the others `small`."""
    if any(part in model for part in ("gpt-5", "o1", "o3")):
        return {"max_completion_tokens": 49_152}
    return dict(small)
