"""Judge folders: `judge.toml` and `prompt.md` (E §3.1, §3.2), and who judges by them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from ptb_tui.content.lookup import Content
from ptb_tui.content.reading import read_toml
from ptb_tui.core.errors import ContentError
from ptb_tui.core.panel import ApiUse, Prices, Seat, spread
from ptb_tui.core.spec import Judging
from ptb_tui.core.verdict import JudgeSpec

_TABLES: dict[str, type[BaseModel]] = {"panel": Seat, "openai_api": ApiUse, "prices": Prices}


@dataclass(frozen=True, slots=True)
class Judge:
    """One judge."""

    name: str
    folder: Path
    spec: JudgeSpec
    prompt: Path


def load_judge(content: Content, name: str) -> Judge:
    """Read a judge folder. NotFound or ContentError."""
    folder = content.folder("judges", name)
    prompt = folder / "prompt.md"
    if not prompt.is_file():
        raise ContentError(f"{prompt}: judge {name} lacks its prompt")
    return Judge(name, folder, read_toml(folder / "judge.toml", JudgeSpec, _TABLES), prompt)


def _filled(spec: JudgeSpec, seat: Seat, model: str, endpoint: str) -> Seat:
    """The seat with all that the judge's folder says. A model or an endpoint that somebody else names has no price, and
    another endpoint gets no key that was meant for this one."""
    if seat.engine == "rules":
        return Seat(engine="rules", votes=seat.votes)
    if seat.engine == "codex":
        return Seat(
            engine="codex",
            model=model or seat.model or spec.model,
            effort=seat.effort or spec.effort,
            votes=seat.votes,
            endpoint=seat.endpoint or spec.endpoint,
        )
    use = spec.openai_api
    place, known = (endpoint or seat.endpoint or use.endpoint).strip().rstrip("/"), use.endpoint.strip().rstrip("/")
    named = seat.model or use.model or spec.model
    ours = not endpoint or place == (seat.endpoint or use.endpoint).strip().rstrip("/")
    key = (seat.key or (use.key if place == known else "")) if ours else ""
    prices = seat.prices or (use.prices if named == (use.model or spec.model) and place == known else None)
    return Seat(
        engine="openai_api",
        model=model or named,
        effort=seat.effort or use.effort or spec.effort,
        votes=seat.votes,
        endpoint=place,
        key=key,
        prices=prices if ours and model in ("", named) else None,
    )


def panel(spec: JudgeSpec, usual: Seat, asked: Judging, endpoint: str = "") -> tuple[Seat, ...]:
    """Who gives each vote of a judge, in order.

    `usual` is what the protocol says; a panel of the judge's folder goes before it, `asked` (`[judging]` of a sweep, or
    a person) before both. `endpoint` is the base URL for engine `openai_api` where sweep or site name one.
    """
    seats: list[Seat] = list(spec.panel) or [usual]
    if asked.engine is not None:
        seats = [seat for seat in seats if seat.engine == asked.engine] or [
            Seat(engine=asked.engine, votes=1 if spec.panel else usual.votes)
        ]
    return spread((_filled(spec, seat, asked.model or "", endpoint) for seat in seats), asked.votes)


def for_seat(spec: JudgeSpec, seat: Seat) -> JudgeSpec:
    """The judge as this seat has it: its model, its effort, its endpoint."""
    return spec.model_copy(
        update={
            "model": seat.model or spec.model,
            "effort": seat.effort or spec.effort,
            "endpoint": seat.endpoint if seat.engine == "codex" else "",
        }
    )
