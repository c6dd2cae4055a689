"""One conversation with an endpoint: how it is asked, what was said, what that used."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ptb_tui.core.panel import Prices
from ptb_tui.judging.engines.desk import in_text
from ptb_tui.judging.engines.endpoint import Failed, Said

_GONE = "[left out to make room; ask for it again if it matters]"
_NAMED = (  # what a refusal may name → what the next request does without
    ("effort", re.compile(r"reasoning|effort", re.I)),
    ("tools", re.compile(r"tool|function", re.I)),
    ("structure", re.compile(r"response_format|json_schema|json_object|schema|structured|grammar|guided", re.I)),
)
_TOO_LONG = re.compile(r"context|too long|maximum.{0,40}(token|length)|max_model_len|too many tokens", re.I)


@dataclass(slots=True)
class Manner:
    """How the endpoint is asked; it only gets plainer, and stays so for all sessions of a vote."""

    effort: str
    tools: bool = True
    structure: str = "json_schema"  # json_schema | json_object | text
    window: int = 0  # characters sent in one request
    refused: list[str] = field(default_factory=list)

    def plainer(self, failed: Failed, verdict: bool) -> bool:
        """Do without what a refusal names, or without the next thing; False when nothing is left to do without."""
        if _TOO_LONG.search(failed.words) and self.window > 16 << 10:
            self.window //= 2
            self.refused.append(f"window of {self.window * 2} characters: {failed.words}")
            return True
        could = {"effort": bool(self.effort), "tools": self.tools, "structure": verdict and self.structure != "text"}
        named = [name for name, words in _NAMED if could[name] and words.search(failed.words)]
        order = named + [name for name, possible in could.items() if possible]
        if not order:
            return False
        self.refused.append(f"{order[0]}: {failed.words}")
        if order[0] == "effort":
            self.effort = ""
        elif order[0] == "tools":
            self.tools = False
        else:
            self.structure = "json_object" if self.structure == "json_schema" else "text"
        return True


@dataclass(slots=True)
class Talk:
    """One session: the conversation, what it used, and its trace in the form of the codex CLI."""

    messages: list[dict[str, Any]]
    lines: list[str] = field(default_factory=list)
    requests: int = 0
    looked: int = 0
    left_out: int = 0
    fresh: int = 0
    cached: int = 0
    output: int = 0
    cost: float = 0.0
    counted: bool = True  # every answer said how many tokens
    priced: bool = True  # every answer said what it cost
    models: set[str] = field(default_factory=set)
    told: bool = False  # how to ask for tools in text

    def item(self, kind: str, **facts: Any) -> None:
        """Write an item down."""
        item = {"id": f"item_{len(self.lines)}", "type": kind, **facts}
        self.lines.append(json.dumps({"type": "item.completed", "item": item}, ensure_ascii=False))

    def end(self, failed: Failed | None) -> None:
        """Write down how it ended."""
        usage = {"input_tokens": self.fresh + self.cached, "cached_input_tokens": self.cached}
        end: dict[str, Any] = {"type": "turn.completed"}
        if self.counted:
            end["usage"] = {**usage, "output_tokens": self.output}
        if failed is not None:
            end = {"type": "turn.failed", "error": {"message": failed.words}}
        self.lines.append(json.dumps(end))

    def count(self, said: Said) -> None:
        """Add what an answer used."""
        used = said.used
        self.counted = self.counted and used.fresh is not None and used.output is not None
        self.fresh, self.cached = self.fresh + (used.fresh or 0), self.cached + used.cached
        self.output += used.output or 0
        self.priced = self.priced and used.cost is not None
        self.cost += used.cost or 0.0
        if said.model:
            self.models.add(said.model)

    def by_text(self) -> None:
        """Ask for tools in text from here on: what was called by the endpoint's own before goes on as text."""
        if self.told:
            return
        self.told = True
        self.messages[0]["content"] += "\n\n" + in_text()
        for message in self.messages:
            if message.pop("tool_calls", None) is not None:
                message["content"] = message["content"] or "(tools were called)"
            if message["role"] == "tool":
                message["role"] = "user"
                message.pop("tool_call_id", None)

    @property
    def total(self) -> int:
        """All tokens so far."""
        return self.fresh + self.cached + self.output

    def fit(self, window: int) -> None:
        """Leave the oldest results of tools out until the rest has room."""
        size = sum(_size(message) for message in self.messages)
        for message in self.messages[2:-1]:
            if size <= window:
                return
            result = message["role"] == "tool" or (message["role"] == "user" and message["content"].startswith("["))
            if result and message["content"] != _GONE:
                size -= len(message["content"]) - len(_GONE)
                message["content"] = _GONE
                self.left_out += 1

    @property
    def tokens(self) -> dict[str, int]:
        """Counts, when all of them are known."""
        return {"input": self.fresh, "output": self.output, "cache_read": self.cached} if self.counted else {}

    def dollars(self, prices: Prices | None) -> float | None:
        """What it cost: as the endpoint says, else by the prices, else unknown."""
        if not self.requests:
            return 0.0
        if self.priced:
            return self.cost
        return prices.cost(self.fresh, self.cached, self.output) if prices is not None and self.counted else None


def _size(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls")
    return len(message.get("content") or "") + (len(json.dumps(calls)) if calls else 0)
