"""Who judges: engines, models and how often each is asked (E §3.8; design §6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

EngineName = Literal["codex", "openai_api", "rules"]
MAX_VOTES = 9
_KEYS = {"api.openai.com": "OPENAI_API_KEY", "openrouter.ai": "OPENROUTER_API_KEY"}
OWN_KEY = "JUDGE_API_KEY"  # for every other endpoint: a vendor's key goes to that vendor alone


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Prices(_Table):
    """Dollars a million tokens. `cached`: of input that came from a cache, where that costs less."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)

    def cost(self, fresh: int, cached: int, output: int) -> float:
        """What tokens cost, in dollars."""
        other = self.input if self.cached is None else self.cached
        return (fresh * self.input + cached * other + output * self.output) / 1e6


class ApiUse(_Table):
    """`[openai_api]` of judge.toml: the endpoint of that engine, and its bounds for one session.

    `key` names a variable of `.env`; without it the endpoint decides (`key_of`). An empty `model` or `effort` is the
    judge's own; effort "none" is not sent.
    """

    endpoint: str = "https://api.openai.com/v1"
    key: str = ""
    model: str = ""
    effort: str = ""
    prices: Prices | None = None
    max_requests: int = Field(default=120, ge=2, le=2000)
    max_tokens: int = Field(default=6_000_000, ge=1000)  # of all requests together, input counted each time
    result_kib: int = Field(default=24, ge=1, le=1024)  # of one result of a tool
    window_kib: int = Field(default=600, ge=16)  # text sent in one request; older results of tools are left out


class Seat(_Table):
    """One who judges: `[[panel]]` of judge.toml, and with one vote each the panel of a run.

    What is empty is filled from the judge's folder before a run is planned (`content.judges`).
    """

    engine: EngineName
    model: str = ""
    effort: str = ""
    votes: int = Field(default=1, ge=1, le=MAX_VOTES)
    endpoint: str = ""
    key: str = ""
    prices: Prices | None = None

    @property
    def words(self) -> str:
        """How a person calls it."""
        host = urlsplit(self.endpoint).netloc if self.endpoint else ""
        return " ".join(part for part in (self.engine, self.model, f"at {host}" if host else "") if part)


def spread(seats: Iterable[Seat], votes: int | None = None) -> tuple[Seat, ...]:
    """The seats in the order of their votes, one vote each. `votes` instead of what the seats say: the first so many,
    in turn again when there are fewer. The rules are asked once: they say the same every time."""
    single = [seat.model_copy(update={"votes": 1}) for seat in seats for _ in range(seat.votes)]
    if votes is not None and single:
        single = [single[n % len(single)] for n in range(votes)]
    kept: list[Seat] = []
    for seat in single:
        if seat.engine != "rules" or seat not in kept:
            kept.append(seat)
    return tuple(kept)


def key_of(seat: Seat) -> tuple[str, bool]:
    """(name of the key that a seat of engine `openai_api` works with, whether it must have a value)."""
    if seat.key:
        return seat.key, True
    name = _KEYS.get(urlsplit(seat.endpoint).hostname or "")
    return (name, True) if name else (OWN_KEY, False)


def in_words(seats: Sequence[Seat]) -> str:
    """A panel in one line: `2 × codex m, openai_api n at host`."""
    counts: dict[str, int] = {}
    for seat in seats:
        counts[seat.words] = counts.get(seat.words, 0) + seat.votes
    return ", ".join(words if count == 1 else f"{count} × {words}" for words, count in counts.items())
