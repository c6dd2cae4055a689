"""What the words of a justification may add to a verdict: "read this one". They never decide."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SENTENCE = re.compile(r"[^.!?;\n]+")
_NEGATED = re.compile(
    r"\b(no|not|never|nor|none|neither|nothing|without|whether|if|unless|would|could|may|might|cannot|avoid\w*"
    r"|unlikely|rather|false|clean)\b|n[’']t\b",
    re.I,
)
_ASSERTS = {
    "contamination": r"(is|constitutes|amounts to|counts as) (clear(ly)? |a case of )?contamination"
    r"|trained on (the )?(test|benchmark) (items|set|questions|data|answers)|(is|are) contaminated",
    "disallowed_model": r"(is|was) (clearly )?(a|the) disallowed model|submitted the instruct",
    "disallowed_api_usage": r"(is|was|constitutes) (clearly )?(a )?(disallowed|forbidden|prohibited) (api|call|use)",
    "disallowed_ptb_lookup": r"(is|was|constitutes) (clearly )?(a )?(disallowed|forbidden|prohibited) (lookup|access)",
    "general_anomaly": r"(is|constitutes) (clearly )?an anomaly",
}
_ASSERTED = {flag: re.compile(words, re.I | re.A) for flag, words in _ASSERTS.items()}
_PIECES = {  # one of which, in small letters, is in every text that the pattern finds: they are found much faster
    "contamination": (
        "is contamination", "constitutes contamination", "to contamination", "as contamination", "clear contamination",
        "clearly contamination", "case of contamination", "trained on", "contaminated",
    ),
    "disallowed_model": ("disallowed model", "submitted the instruct"),
    "disallowed_api_usage": ("disallowed ", "forbidden ", "prohibited "),
    "disallowed_ptb_lookup": ("disallowed ", "forbidden ", "prohibited "),
    "general_anomaly": ("an anomaly",),
}  # fmt: skip
_NOTHING = re.compile(r"(?!)")
_DENIES = re.compile(
    r"\bno (evidence|signs?|indications?|traces?|contamination|violations?|anomal(y|ies)|hosted)\b", re.I
)


def at_odds(verdict: Mapping[str, bool | str]) -> str:
    """Why a person should read the reasons, because they seem to say the opposite of the flags, or "". Never decides.

    Cautious: a sentence with any negation proves nothing.
    """
    for name, value in verdict.items():
        if not isinstance(value, bool):
            continue
        reason = str(verdict.get(f"justification_{name}", ""))
        asserted = _ASSERTED.get(name, _NOTHING)
        if not value:
            small = reason.lower()
            if not any([piece in small for piece in _PIECES.get(name, ())]) or not asserted.search(reason):
                continue  # nearly always: what the whole does not hold no sentence holds
        sentences = [found for found in _SENTENCE.findall(reason) if found.strip()]
        if not value and any(asserted.search(text) and not _NEGATED.search(text) for text in sentences):
            return f"{name} is false, its reason says the opposite"
        if value and sentences and all(_DENIES.search(text) for text in sentences):
            return f"{name} is true, its reason says the opposite"
    return ""
