"""Exact numeric comparison of a model's answer with a target (E §1.7.1).

The ordinary numeric match of inspect compares with *ends with* (114,000 counts for 14,000) after rounding to five
digits, and raises on odd numbers. Here the last number must have the target's value, and nothing a model writes raises.
"""

import re
import unicodedata
from typing import Optional, Tuple

_MARKS = re.compile(r"[$€£,*_]")
_SENTENCE_DOT = re.compile(r"\.(?=\s|$)")
_TARGET = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_TOLERANCE = 1e-9
_POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_WORD = re.compile(r"([-+]?[\d.]*)([¼-¾⅐-⅞]?)([{0}]*)".format(_POWERS))
_DIGITS = str.maketrans(_POWERS, "0123456789")
_BOX = "\\boxed{"


def strip_marks(text: str) -> str:
    """Lower-cased and trimmed, without currency, thousands and emphasis marks and without dots that end a sentence."""
    return _SENTENCE_DOT.sub("", _MARKS.sub("", text.strip().lower())).strip()


def unboxed(text: str) -> str:
    r"""The text with the content of every `\boxed{…}` in its place; an unclosed one stays as it is."""
    out, rest = [], text
    while _BOX in rest:
        before, _, after = rest.partition(_BOX)
        depth, end = 1, 0
        while end < len(after) and depth:
            depth += {"{": 1, "}": -1}.get(after[end], 0)
            end += 1
        if depth:
            break
        out += [before, after[: end - 1]]
        rest = after[end:]
    return "".join(out) + rest


def _looks_numeric(word: str) -> bool:
    digits = word[1:] if word.startswith("-") else word
    return digits.replace(".", "").isnumeric()


def _value(word: str) -> Optional[float]:
    try:
        value = float(word)
    except (ValueError, OverflowError):
        return None
    return value if abs(value) < float("inf") else None


def _normal(word: str) -> Optional[str]:
    """A number with five significant digits, the way inspect writes it; fractions and powers in Unicode are read."""
    match = _WORD.fullmatch(word)
    if match is None:
        return None
    base, fraction, power = match.groups()
    try:
        value = float(base) if base or not fraction else 0.0
        if fraction:
            value += unicodedata.numeric(fraction)
        if power:
            value = value ** int(power.translate(_DIGITS))
        return "{:.5g}".format(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        return None


def last_number_exact(completion: str, target: str) -> Tuple[str, bool]:
    """The answer found in `completion` and whether it equals `target`, which must be all digits (else ValueError).

    The answer is the last word that is a number when dots are ignored, else the last word.
    """
    if not (target.isascii() and target.isdigit()):
        raise ValueError("not a whole number: {!r}".format(target))
    words = strip_marks(completion).split()
    numeric = [word for word in words if word.replace(".", "").isnumeric()]
    answer = numeric[-1] if numeric else (words[-1] if words else "")
    found = _normal(answer)
    return found or answer, found is not None and found == _normal(target)


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
