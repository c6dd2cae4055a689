"""Exact numeric comparison of a model's answer with a target (E §1.7.1).

The ordinary numeric match of inspect compares with *ends with* (114,000 counts for 14,000) after rounding to five
digits, and raises on odd numbers. Here the last number must have the target's value, and nothing a model writes raises.
"""

import re
from typing import Optional, Tuple

_MARKS = re.compile(r"[$€£,*_]")
_SENTENCE_DOT = re.compile(r"\.(?=\s|$)")
_TARGET = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_TOLERANCE = 1e-9


def strip_marks(text: str) -> str:
    """Lower-cased and trimmed, without currency, thousands and emphasis marks and without dots that end a sentence."""
    return _SENTENCE_DOT.sub("", _MARKS.sub("", text.strip().lower())).strip()


def _looks_numeric(word: str) -> bool:
    digits = word[1:] if word.startswith("-") else word
    return digits.replace(".", "").isnumeric()


def _value(word: str) -> Optional[float]:
    try:
        value = float(word)
    except (ValueError, OverflowError):
        return None
    return value if abs(value) < float("inf") else None


def signed_last_number_exact(completion: str, target: str) -> Tuple[str, bool]:
    """The answer found in `completion` and whether it equals `target`.

    The answer is the last word that is a number when one leading minus and dots are ignored, written with twelve
    significant digits; without any such word, or if it cannot be read, it is the word itself and wrong.
    Raises ValueError if `target` is not a decimal number.
    """
    wanted = strip_marks(target)
    if not _TARGET.fullmatch(wanted):
        raise ValueError("not a decimal target: {!r}".format(target))
    words = strip_marks(completion).split()
    numeric = [word for word in words if _looks_numeric(word)]
    if not numeric:
        return (words[-1] if words else ""), False
    value = _value(numeric[-1])
    if value is None:
        return numeric[-1], False
    return "{:.12g}".format(value), abs(value - float(wanted)) < _TOLERANCE
