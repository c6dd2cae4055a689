"""Near duplicates: an item's wording with other numbers, or with some of its words changed.

Compared are words alone. A document is a candidate of an item when it holds enough of the item's sketch: the few of its
3-grams whose hash is smallest (bottom-k MinHash), whose share estimates that of all. Only candidates are compared.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import Dict, FrozenSet, Iterable, List, Sequence, Set, Tuple

from contamination.copies import Part, densest, near_rare
from contamination.words import Gram, grams_of, words_of

SKETCH = 32  # 3-grams kept of an item, and
NEEDED = 0.3  # the share of them that makes a candidate; a copy has at least 0.5 of them
COMMON = 16  # wordings that may share a 3-gram before others are preferred
FEW = 6  # an item of fewer 3-grams is looked up by its longest word instead
HELD = 0.4  # share of an item's 3-grams, anywhere in a document, with which it is compared in full
NEAR = 0.7  # share of an item's 3-grams, in one stretch, that makes a near duplicate
LEAST_WORDS = 12  # words that an item needs for that, and
ALIKE = 2  # items of the reference that may share a wording: more of them are a template that anybody may use


@dataclass
class Shape:
    """One wording, without its numbers, and the parts that have it."""

    words: List[str]
    grams: FrozenSet[Gram]
    needed: int = 0
    parts: List[Part] = field(default_factory=list)
    _by_number: Dict[str, List[Part]] = field(default_factory=dict)

    def parts_with(self, tokens: FrozenSet[str]) -> List[Part]:
        """Those parts that may be among these tokens, by their longest number; thousands can share a wording."""
        if len(self.parts) < 8:
            return self.parts
        if not self._by_number:
            for part in self.parts:
                number = max(part.digits, key=lambda token: (len(token), token), default="")
                self._by_number.setdefault(number, []).append(part)
        found = list(self._by_number.get("", ()))
        for number in self._by_number.keys() & tokens:
            found += self._by_number[number]
        return found

    @property
    def comparable(self) -> bool:
        """Whether a near duplicate of it means anything."""
        questions = sum(part.name == "question" for part in self.parts)
        return len(self.words) >= LEAST_WORDS and len(self.grams) >= LEAST_WORDS // 2 and 0 < questions <= ALIKE


def sketch_of(grams: Iterable[Gram], frequency: Dict[Gram, int]) -> List[Gram]:
    """The 3-grams of the smallest hashes, the same in every process; those of many wordings only where others lack."""

    def rank(gram: Gram) -> Tuple[int, int, Gram]:
        return max(COMMON, frequency[gram]), zlib.crc32(" ".join(gram).encode("utf-8", "replace")), gram

    found = sorted(grams, key=rank)[:SKETCH]
    return [gram for place, gram in enumerate(found) if place < FEW or frequency[gram] <= COMMON]


def held(shapes: Sequence[Shape], words: List[str], share: float) -> List[Shape]:
    """Those of which the words hold at least this share of all 3-grams."""
    there = frozenset(zip(words, words[1:], words[2:], strict=False)) if shapes else frozenset()
    return [shape for shape in shapes if len(shape.grams & there) >= share * len(shape.grams)]


class Shapes:
    """Sketches of all parts, and how the words of a document find those that it may hold."""

    def __init__(self, parts: Sequence[Part]) -> None:
        shapes: Dict[Gram, Shape] = {}
        self.sketch: Dict[Gram, List[Shape]] = {}
        self.keyed: Dict[str, List[Part]] = {}
        self.always: List[Part] = []
        for part in parts:
            words = words_of(" ".join(token for token in part.tokens if not token[0].isdigit()))
            grams = frozenset(grams_of(words, 3))
            if part.short or len(grams) < FEW:
                key = max(words, key=lambda word: (len(word), word), default="")
                (self.keyed.setdefault(key, []) if key else self.always).append(part)
            elif tuple(words) in shapes:
                shapes[tuple(words)].parts.append(part)
            else:
                shapes[tuple(words)] = Shape(words, grams, parts=[part])
        frequency = Counter(chain.from_iterable(shape.grams for shape in shapes.values()))
        for shape in shapes.values():
            kept = sketch_of(shape.grams, frequency)
            shape.needed = max(2, math.ceil(NEEDED * len(kept)))
            for gram in kept:
                self.sketch.setdefault(gram, []).append(shape)
        self._grams, self._keys = frozenset(self.sketch), frozenset(self.keyed)

    def candidates(self, words: List[str]) -> Tuple[List[Shape], List[Part]]:
        """(wordings that these words may hold, parts too short for a sketch that they may hold)."""
        parts = list(self.always)
        if self._keys and not self._keys.isdisjoint(words):
            for key in sorted(self._keys.intersection(words)):
                parts += self.keyed[key]
        found = self._grams.intersection(zip(words, words[1:], words[2:], strict=False))
        if len(found) < 2:
            return [], parts
        counts = Counter(map(id, chain.from_iterable(map(self.sketch.__getitem__, found))))
        if max(counts.values()) < 2:
            return [], parts
        near = {id(shape): shape for gram in found for shape in self.sketch[gram]}
        return [near[key] for key, count in counts.items() if count >= near[key].needed], parts

    def compare(self, leaves: List[List[str]], shapes: Sequence[Shape]) -> List[Tuple[Shape, float, int, int]]:
        """(wording, share, first string, last string) of the near duplicates among `shapes`."""
        words: List[str] = []
        ends: List[int] = []
        for leaf in leaves:
            words += leaf
            ends.append(len(words))
        chosen = held([shape for shape in shapes if shape.comparable], words, NEAR)
        if not chosen:
            return []
        wanted: Set[Gram] = set().union(*(shape.grams for shape in chosen))
        places: Dict[Gram, List[int]] = {}
        for at, gram in enumerate(zip(words, words[1:], words[2:], strict=False)):
            if gram in wanted:
                places.setdefault(gram, []).append(at)
        found = []
        for shape in chosen:
            weights = dict.fromkeys(shape.grams, 1.0 / len(shape.grams))
            width = len(shape.words) + max(6, len(shape.words) // 4)
            window = densest(near_rare(weights, places, width), weights, width)
            if window.weight >= NEAR - 1e-9:
                first = sum(end <= window.begin for end in ends)
                last = sum(end <= window.begin + width for end in ends)
                found.append((shape, window.weight, first, min(last, len(leaves) - 1)))
        return found
