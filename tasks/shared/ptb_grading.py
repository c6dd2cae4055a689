"""A paid grader: which endpoint, retries, replies kept on disk, and a clear end when it cannot grade everything.

What the grader fails to say is never scored: the evaluation ends incomplete instead, and a repeat asks only for what
is missing, since replies that could be used are kept. Beside them `calls.jsonl` has a line for every call: the model
that answered, tokens, and costs where the endpoint says them.
"""

import copy
import hashlib
import importlib
import json
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ptb_items import InputMissing

OPENROUTER = "https://openrouter.ai/api/v1"
MODEL = "gpt-5-mini"
CALLS = "calls.jsonl"
_TIMEOUT_S = 900.0
_ROUNDS = 2  # what the provider failed to answer is asked again when all the rest is done
CREDIT, KEY, LIMIT, ENDPOINT, REPLY = "credit", "key", "limit", "endpoint", "reply"
_BY_CODE = {"insufficient_quota": CREDIT, "billing_hard_limit_reached": CREDIT, "invalid_api_key": KEY}
_BY_STATUS = {401: KEY, 402: CREDIT, 403: KEY, 404: ENDPOINT}
_REFUSALS = (*_BY_CODE, *_BY_STATUS)  # of which a repeat changes nothing


class GradingIncomplete(Exception):
    """Not everything could be graded. The text names the kind of what is in the way: credit, key, limit (of requests),
    endpoint (not reached, or another than it should be), reply (answered, but not usably)."""


@dataclass(frozen=True)
class Endpoint:
    """Where the grader is; `base_url` None is the package's own default, which OPENAI_BASE_URL changes. The text of an
    endpoint does not show its key."""

    key: str = field(repr=False)
    model: str
    base_url: Optional[str] = None


def endpoint(environ: Mapping[str, str]) -> Endpoint:
    """OpenAI where its key is set, else OpenRouter; PTB_GRADER_URL names another base URL for either. Raises
    InputMissing without any key."""
    url = environ.get("PTB_GRADER_URL") or None
    if environ.get("OPENAI_API_KEY"):
        return Endpoint(environ["OPENAI_API_KEY"], MODEL, url)
    if environ.get("OPENROUTER_API_KEY"):
        url = url or environ.get("OPENROUTER_BASE_URL") or OPENROUTER
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
    """What came of a question. `failed` is a reason that lies with the provider and `kind` what it is; without it and
    without a value the grader has answered, but not usably."""

    value: Any = None
    reply: str = ""
    failed: str = ""
    kind: str = ""


class Grader:
    """Asks questions, several at a time, and keeps usable replies in `cache` (None: keeps nothing)."""

    def __init__(self, where: Endpoint, cache: Optional[Path], workers: int) -> None:
        openai = importlib.import_module("openai")
        self._openai = openai
        self._where = where
        self._cache = cache
        self._workers = max(1, workers)
        self._refused = threading.Event()
        self._writing = threading.Lock()
        self._reuses = True
        self._plain = threading.Event()  # the endpoint takes no reasoning effort
        self._client = openai.OpenAI(api_key=where.key, base_url=where.base_url, timeout=_TIMEOUT_S, max_retries=0)
        self._last = Grade()

    @property
    def cache(self) -> Optional[Path]:
        """The folder of kept replies."""
        return self._cache

    def afresh(self) -> "Grader":
        """The same grader without the replies that are kept; its calls are noted all the same."""
        again = copy.copy(self)
        again._reuses = False
        return again

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _place(self, question: Question) -> Optional[Path]:
        if self._cache is None or not self._reuses:
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

    def _note(self, made: Any, failed: str = "") -> None:
        """One line about a call. A reply that lacks a figure says nothing about it."""
        if self._cache is None:
            return
        used = getattr(made, "usage", None)
        row = {
            "asked": self._where.model,
            "model": getattr(made, "model", None),
            "input": getattr(used, "prompt_tokens", None),
            "output": getattr(used, "completion_tokens", None),
            "cost_usd": getattr(used, "cost", None),
            "failed": failed,
        }
        line = json.dumps({name: value for name, value in row.items() if value not in (None, "")}, default=str)
        with self._writing:
            self._cache.mkdir(parents=True, exist_ok=True)
            with open(str(self._cache / CALLS), "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def _call(self, question: Question) -> str:
        options = dict(question.options)
        if self._plain.is_set():
            options.pop("reasoning_effort", None)
        made = self._client.chat.completions.create(
            model=self._where.model, messages=list(question.messages), **options
        )
        self._note(made)
        return (made.choices[0].message.content or "") if made.choices else ""

    def _failure(self, error: Exception) -> Grade:
        """What an error of the package means. The key never shows in its words."""
        words = "{}: {}".format(type(error).__name__, error).replace(self._where.key, "[key]")
        code = str(getattr(error, "code", "") or "")
        status = getattr(error, "status_code", None)
        kind = _BY_CODE.get(code) or _BY_STATUS.get(status or 0) or (LIMIT if status == 429 else ENDPOINT)
        if code in _REFUSALS or status in _REFUSALS:
            self._last = Grade(failed=words, kind=kind)
            self._refused.set()
        return Grade(failed=words, kind=kind)

    def ask(self, question: Question) -> Grade:
        """One question, with all its tries."""
        place = self._place(question)
        kept = self._kept(place, question)
        if kept is not None:
            return kept
        grade = Grade(failed="not asked", kind=ENDPOINT)
        for wait in question.waits:
            if self._refused.is_set():
                return self._last
            try:
                reply = self._call(question)
            except self._openai.OpenAIError as error:
                grade = self._failure(error)
                self._note(None, grade.kind)
                if isinstance(error, self._openai.BadRequestError) and not self._refused.is_set():
                    if "reasoning" in str(error).lower() and not self._plain.is_set():
                        self._plain.set()
                        continue
                    grade = Grade(reply=grade.failed)
                if not self._refused.is_set():
                    time.sleep(wait)
                continue
            value = question.read(reply)
            if value is not None:
                self._keep(place, reply)
                return Grade(value, reply)
            grade = Grade(reply=reply)
        return grade

    def _round(self, questions: Sequence[Question], places: Sequence[int], grades: List[Grade], workers: int) -> None:
        """Ask for these places, and say from time to time how far it has come."""
        began, step = time.monotonic(), max(1, len(places) // 20)
        with ThreadPoolExecutor(workers) as pool:
            found = pool.map(lambda place: self.ask(questions[place]), places)
            for number, (place, grade) in enumerate(zip(places, found, strict=True), 1):
                grades[place] = grade
                if number % step == 0 or number == len(places):
                    warn("asked {} of {} after {:.0f} s".format(number, len(places), time.monotonic() - began))

    def ask_all(self, questions: Sequence[Question]) -> List[Grade]:
        """All grades, in the order of the questions. GradingIncomplete when the provider failed for any of them, after
        a second round with fewer requests at a time."""
        grades = [Grade(failed="not asked", kind=ENDPOINT) for _ in questions]
        left, workers = list(range(len(questions))), self._workers
        for number in range(_ROUNDS):
            if number:
                warn("{} questions are asked again: {}".format(len(left), grades[left[0]].failed))
            self._round(questions, left, grades, workers)
            left = [place for place in left if grades[place].failed]
            workers = max(1, workers // 8)
            if not left or self._refused.is_set():
                break
        if left:
            why = self._last if self._refused.is_set() else grades[left[0]]
            raise incomplete(len(grades) - len(left), len(grades), why.failed, why.kind)
        return grades


def incomplete(graded: int, of: int, words: str, kind: str = REPLY) -> GradingIncomplete:
    """The error that says how far grading came, what kind of thing is in the way, and in whose words."""
    return GradingIncomplete("graded {} of {}, grading incomplete ({}): {}".format(graded, of, kind, words))


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
