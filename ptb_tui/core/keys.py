"""Which API keys a sandbox receives, and with which values (H §1.5). Pure; standard library alone.

On the host `CODEX_API_KEY` is `OPENAI_API_KEY`, and `OPENAI_API_KEY` itself is shown only to tasks whose grader needs
it, so that no agent spends it by accident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

OPENAI, CODEX, OPENROUTER = "OPENAI_API_KEY", "CODEX_API_KEY", "OPENROUTER_API_KEY"


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """`names` in the order in which they are logged; `may_lack` are those that may be present without a value."""

    names: tuple[str, ...]
    may_lack: frozenset[str] = frozenset()
    one_of: tuple[str, ...] = ()  # at least one of these needs a value; empty for no such rule

    def missing(self, values: Mapping[str, str]) -> list[str]:
        """What lacks a value, one entry each, alternatives as one entry "A or B"."""
        given = self.values(values)
        lacking = [name for name in self.names if name not in self.may_lack and not given[name]]
        if self.one_of and not any(given.get(name) for name in self.one_of):
            lacking.append(" or ".join(self.one_of))
        return lacking

    def values(self, values: Mapping[str, str]) -> dict[str, str]:
        """Exactly what the sandbox gets; a key without a value is present and empty, as in the original."""
        renamed = on_host(values)
        return {name: renamed.get(name, "") for name in self.names}

    def words(self) -> list[str]:
        """The policy as words for `step-keys`; `from_words` reads them."""
        one_of = [f"{name}|" for name in self.one_of]
        return [*(f"{name}?" if name in self.may_lack else name for name in self.names), *one_of]


def from_words(words: Sequence[str]) -> KeyPolicy:
    """A policy from its words: `NAME` needs a value, `NAME?` may lack one, one of all `NAME|` needs one."""
    plain = [word for word in words if not word.endswith("|")]
    return KeyPolicy(
        tuple(dict.fromkeys(word.removesuffix("?") for word in plain)),
        frozenset(word[:-1] for word in plain if word.endswith("?")),
        tuple(word[:-1] for word in words if word.endswith("|")),
    )


def on_host(values: Mapping[str, str]) -> dict[str, str]:
    """The keys after the renaming; a key given as CODEX_API_KEY alone is Codex's and grades nothing."""
    return {**values, CODEX: values.get(OPENAI) or values.get(CODEX) or ""}


def grades_by_openrouter(required: Sequence[str], values: Mapping[str, str]) -> bool:
    """Whether the task's grader is to be reached through OpenRouter (H §1.1): OpenAI's key is needed and not there."""
    return OPENAI in required and not values.get(OPENAI) and bool(values.get(OPENROUTER))


def policy(
    allowed: Sequence[str],
    required: Sequence[str],
    values: Mapping[str, str],
    *,
    by_config: Mapping[str, str] | None = None,
    config: str = "",
) -> KeyPolicy:
    """The agent's allow-list and the keys that the task requires.

    `by_config` tells for an agent with several providers which key a config needs, by how the config begins; then its
    other allowed keys may lack a value. A config that no entry fits needs any one of them.
    """
    names = list(dict.fromkeys((*allowed, *required)))
    lack: set[str] = set()
    if grades_by_openrouter(required, values):
        names = list(dict.fromkeys((*names, OPENROUTER)))
        lack.add(OPENAI)
    one_of: tuple[str, ...] = ()
    if by_config:
        fitting = max((start for start in by_config if config.startswith(start)), key=len, default=None)
        needed = {by_config[fitting]} if fitting is not None else set()
        lack |= set(allowed) - needed - set(required)
        one_of = () if needed else tuple(allowed)
    return KeyPolicy(tuple(names), frozenset(lack), one_of)


def not_for_agents(allowed: Sequence[str], required: Sequence[str]) -> list[str]:
    """Keys that an agent's list may not name for this task: OpenAI's own belongs to graders (H §1.5)."""
    return [name for name in allowed if name == OPENAI and name not in required]
