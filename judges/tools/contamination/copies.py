"""Copies: a reference item's own tokens in a document, numbers included."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Dict, FrozenSet, Iterator, List, Sequence, Tuple

from contamination.fields import fields_of, parse, strings_of
from contamination.words import Gram, grams_of, tokens_of

SHORT = 8  # a question of fewer tokens is compared whole
ALONE = 0.9  # share of a question (weighted by rarity) that is a hit whatever else the document holds
SUPPORTED = 0.75  # the same when the answer is in the document too
LONG_ANSWER = 40  # tokens from which an answer alone is a hit
HELPED = 0.8  # share of an answer or passage from which it supports a question


@dataclass
class Part:
    """The question, or a long answer, of one reference item, ready to be found."""

    item: int
    name: str
    tokens: List[str]
    grams: Dict[Gram, float]
    numbers: List[FrozenSet[Gram]]  # for every number the 5-grams that hold it
    digits: FrozenSet[str] = frozenset()  # those numbers
    total: float = 0.0
    support: bool = False  # says too little by itself: the answer or the passage must be there as well
    short: bool = False


def part_of(item: int, name: str, leaves: List[List[str]]) -> Part:
    """A part without weights; 5-grams do not reach from one string into the next."""
    grams: Dict[Gram, float] = {}
    numbers: List[FrozenSet[Gram]] = []
    digits = set()
    for tokens in leaves:
        runs = grams_of(tokens, 5)
        grams.update(dict.fromkeys(runs, 0.0))
        for at, token in enumerate(tokens):
            covering = frozenset(runs[max(0, at - 4) : at + 1])
            if token[0].isdigit() and covering:
                numbers.append(covering)
                digits.add(token)
    return Part(item, name, [token for tokens in leaves for token in tokens], grams, numbers, frozenset(digits))


def leaves_of(value: str) -> List[List[str]]:
    """Token lists of a reference field; a field that is itself JSON (chat prompts) gives one list a string."""
    inner = parse(value) if value.lstrip()[:1] in ("[", "{") else None
    return [tokens for tokens in map(tokens_of, strings_of(value if inner is None else inner)) if tokens]


@dataclass
class Hit:
    """A part found: its scores by field, and the place of its first token in the document."""

    part: Part
    scores: Dict[str, float]
    position: int


@dataclass
class Window:
    """The best stretch of a document for one set of n-grams."""

    weight: float = 0.0
    begin: int = 0
    seen: FrozenSet[Gram] = field(default_factory=frozenset)


def densest(found: Sequence[Tuple[int, Gram]], weights: Dict[Gram, float], width: int) -> Window:
    """The stretch of `width` tokens that holds most weight of different n-grams; `found` is sorted by place."""
    inside: Counter[Gram] = Counter()
    weight, first, best, where = 0.0, 0, 0.0, (0, 0)
    for last, (at, gram) in enumerate(found):
        weight += 0.0 if inside[gram] else weights[gram]
        inside[gram] += 1
        while at - found[first][0] > width:
            old = found[first][1]
            inside[old] -= 1
            weight -= 0.0 if inside[old] else weights[old]
            first += 1
        if weight > best + 1e-9:
            best, where = weight, (first, last + 1)
    if not best:
        return Window()
    return Window(best, found[where[0]][0], frozenset(gram for _, gram in found[where[0] : where[1]]))


class Copies:
    """Reference items, and how a document is compared with some of them.

    A document holds an item if, within a stretch little longer than the question, at least 90 % of the question's
    5-grams by weight are found (75 % if the answer is somewhere in the document) and every number of it is among them.
    """

    def __init__(self, items: Sequence[Any]) -> None:
        fields = [{name: leaves_of(value) for name, value in fields_of(item).items()} for item in items]
        self.flat = [{name: list(chain.from_iterable(found)) for name, found in item.items()} for item in fields]
        self.parts: List[Part] = []
        self.unusable: List[int] = []
        same = Counter(tuple(flat.get("question", ())) for flat in self.flat)
        for number, flat in enumerate(self.flat):
            question = part_of(number, "question", fields[number].get("question", []))
            bare = len(question.tokens) < 5 and not any(token[0].isdigit() for token in question.tokens)
            question.support = (same[tuple(question.tokens)] > 2 or bare) and len(flat) > 1
            question.short = len(question.tokens) < SHORT or not question.grams
            (self.parts.append(question) if question.tokens else self.unusable.append(number))
            if len(flat.get("answer", ())) >= LONG_ANSWER:
                self.parts.append(part_of(number, "answer", fields[number]["answer"]))
        long = [part for part in self.parts if not part.short]
        frequency = Counter(gram for part in long for gram in part.grams)
        for part in long:
            for gram in part.grams:
                part.grams[gram] = math.log(1 + len(items) / frequency[gram])
            part.total = sum(part.grams.values())

    def search(self, leaves: List[List[str]], parts: Sequence[Part]) -> Iterator[Hit]:
        """Which of `parts` the tokens of a document's strings hold; a part may come more than once."""
        tokens = list(chain.from_iterable(leaves))
        held: Dict[int, FrozenSet[Gram]] = {}
        there = frozenset(tokens)
        long = [part for part in parts if not part.short and part.digits <= there]
        wanted = {gram for part in long for gram in part.grams}
        where: Dict[Gram, List[int]] = {}
        for position, gram in enumerate(zip(*(tokens[start:] for start in range(5)), strict=False) if long else ()):
            if gram in wanted:
                where.setdefault(gram, []).append(position)
        for part in long:
            share, position = self.share(part, where)
            if share < SUPPORTED:
                continue
            scores = {part.name: share}
            if part.name == "question":
                scores.update(self.supported(part.item, tokens, held))
            helped = max([score for name, score in scores.items() if name != part.name], default=0.0) >= HELPED
            if (share >= ALONE and not part.support) or helped:
                yield Hit(part, scores, position)
        for part, position, whole in self.shorts(leaves, tokens, [part for part in parts if part.short]):
            near = self.supported(part.item, tokens[position : position + 200], {}) if not whole else {}
            scores = {"question": 1.0, **(near or self.supported(part.item, tokens, held))}
            helped = any(score >= HELPED for name, score in scores.items() if name != "question")
            alone = whole or (len(part.tokens) >= 6 and len(self.flat[part.item]) == 1)
            if helped or (alone and not part.support):
                yield Hit(part, scores, position)

    def shorts(
        self, leaves: List[List[str]], tokens: List[str], parts: Sequence[Part]
    ) -> Iterator[Tuple[Part, int, bool]]:
        """(part, position, whether a whole string equals it) of short questions."""
        keyed: Dict[Gram, List[Part]] = {}
        for part in parts:
            keyed.setdefault(tuple(part.tokens), []).append(part)
        at = 0
        for leaf in leaves if keyed else ():
            for part in keyed.get(tuple(leaf), ()) if len(leaf) < 4 * SHORT else ():
                yield part, at, True
            at += len(leaf)
        for size in sorted({len(key) for key in keyed}):
            found: Dict[Gram, int] = {}
            for position, run in enumerate(zip(*(tokens[start:] for start in range(size)), strict=False)):
                if run in keyed:
                    found.setdefault(run, position)
            for key, position in found.items():
                for part in keyed[key]:
                    yield part, position, False

    def share(self, part: Part, places: Dict[Gram, List[int]]) -> Tuple[float, int]:
        """Best share of the part's weight inside one stretch, and where it begins; 0 if a number is missing there."""
        if sum(weight for gram, weight in part.grams.items() if gram in places) < SUPPORTED * part.total:
            return 0.0, 0
        width = len(part.tokens) + max(20, len(part.tokens) // 2)
        window = densest(near_rare(part.grams, places, width), part.grams, width)
        if any(window.seen.isdisjoint(covering) for covering in part.numbers):
            return 0.0, 0
        return min(1.0, window.weight / part.total), window.begin

    def supported(self, item: int, tokens: List[str], held: Dict[int, FrozenSet[Gram]]) -> Dict[str, float]:
        """How much of the item's answer and passage the tokens hold, anywhere; `held` keeps their n-grams by size."""
        scores = {}
        for name in ("answer", "passage"):
            wanted = self.flat[item].get(name)
            if wanted:
                size = len(wanted) if len(wanted) <= 8 else 3
                if size not in held:
                    held[size] = frozenset(grams_of(tokens, size))
                grams = frozenset(grams_of(wanted, size))
                scores[name] = len(grams & held[size]) / len(grams)
        return scores


def near_rare(weights: Dict[Gram, float], places: Dict[Gram, List[int]], width: int) -> List[Tuple[int, Gram]]:
    """The places of n-grams that lie within `width` of the part's rarest: where nothing rare is, there is no copy.

    Otherwise a text in which a common phrase stands ten thousand times would be looked at ten thousand times.
    """
    rare: List[int] = []
    reached, total = 0.0, sum(weights.values())
    for gram, weight in sorted(weights.items(), key=lambda pair: (-pair[1], pair[0])):
        rare += places.get(gram, ())
        reached += weight
        if reached > 0.3 * total:
            break
    around: List[List[int]] = []
    for at in sorted(rare):
        if around and at - width <= around[-1][1]:
            around[-1][1] = at + width
        else:
            around.append([at - width, at + width])
    return sorted(
        (at, gram)
        for gram in weights
        for at_all in (places.get(gram, ()),)
        for low, high in around
        for at in at_all[bisect_left(at_all, low) : bisect_right(at_all, high)]
    )
