"""Text as tokens, in which a copy and its original are equal, and as words alone, which are found much faster."""

from __future__ import annotations

import re
import unicodedata
from itertools import filterfalse
from typing import List, Sequence, Tuple

Gram = Tuple[str, ...]

NUMBERS = dict(zero="0", one="1", two="2", three="3", four="4", five="5", six="6", seven="7", eight="8", nine="9")
NUMBERS.update(ten="10", eleven="11", twelve="12", thirteen="13", fourteen="14", fifteen="15", sixteen="16")
NUMBERS.update(seventeen="17", eighteen="18", nineteen="19", twenty="20", thirty="30", forty="40", fifty="50")
NUMBERS.update(sixty="60", seventy="70", eighty="80", ninety="90")
NUMBERS.update(hundred="100", thousand="1000", twice="2x", double="2x", thrice="3x", triple="3x", half="1/2")
TOKEN = re.compile(r"\d+(?:\.\d+)?|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W\d_]+|[-+*/^=<>%](?=\s*[\d(])")
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W\d_]+")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
BREAK = re.compile(r"\\[nrt]")
ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
SIGNED = re.compile("[−–×·÷⁄]")
SIGNS = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "⁄": "/"})
LETTERS = str.maketrans({number: chr(number).lower() if chr(number).isalpha() else " " for number in range(128)})


def plain(text: str) -> str:
    """The text without accents, width, invisible characters and foreign punctuation. ASCII stays as it is, but for
    escaped line breaks and characters."""
    if "\\" in text:
        text = ESCAPED.sub(lambda match: chr(int(match[1], 16)), BREAK.sub(" ", text))
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKD", text)
    if SIGNED.search(text):
        text = text.translate(SIGNS)
    gone = {}
    for char in () if text.isascii() else set(text):
        if char > "\x7f" and (kind := unicodedata.category(char))[0] in "MCPSZ":
            gone[char] = "" if kind in ("Mn", "Cf") else " "
    if len(gone) > 40:
        return text.translate({ord(char): other for char, other in gone.items()})
    for char, other in gone.items():
        text = text.replace(char, other)
    return text


def tokens_of(text: str) -> List[str]:
    """Words, numbers and arithmetic signs; number words are numbers, punctuation is nothing."""
    text = THOUSANDS.sub("", plain(text).lower())
    return [NUMBERS.get(token, token) for token in TOKEN.findall(text)]


def words_of(text: str) -> List[str]:
    """The tokens that are words: what is left of `tokens_of` without numbers and signs, several times as fast."""
    text = plain(text)
    found = text.translate(LETTERS).split() if text.isascii() else WORD.findall(text.lower())
    return list(filterfalse(NUMBERS.__contains__, found))


def grams_of(tokens: Sequence[str], size: int) -> List[Gram]:
    """All runs of `size` tokens, in order."""
    return list(zip(*(tokens[start:] for start in range(size)), strict=False))
