"""Strict mode: everything that a document holds of a reference set, as a copy, a near duplicate or code.

The words of a document are compared with small sketches of all items at once; only the few that these suggest are
compared in full. A hit's `kind`: `copy` (the item's own words and numbers), `numbers` (its words with other numbers),
`near` (most of its words), `code` (a function with the same syntax tree).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import chain
from typing import Any, Dict, List, Sequence

from contamination.code import functions
from contamination.copies import ALONE, Copies, Part
from contamination.fields import Match, fields_of, strings_of
from contamination.near import HELD, NEAR, Shape, Shapes, held
from contamination.reading import Document
from contamination.words import tokens_of, words_of


class StrictIndex:
    """Reference items in a form in which documents are searched fast. `unusable`: items without a word."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items
        self.copies = Copies(items)
        self.unusable = self.copies.unusable
        self.shapes = Shapes(self.copies.parts)
        self.code: Dict[str, List[int]] = {}
        for number, item in enumerate(items):
            texts = strings_of(item)
            if any("def " in text for text in texts):
                fields = fields_of(item)
                both = fields.get("question", ""), fields.get("answer", "")
                for digest in {
                    found for text in (*texts, "".join(both), "\n".join(both)) for _, found in functions(text)
                }:
                    self.code.setdefault(digest, []).append(number)

    def suspects(self, documents: Sequence[Document]) -> bool:
        """Whether one of these documents may hold something; False is certain, and told faster than by `search`."""
        text = "\n".join(chain.from_iterable(document.leaves for document in documents))
        shapes, parts = self.shapes.candidates(words_of(text))
        return bool(shapes or parts) or (bool(self.code) and "def " in text)

    def search(self, document: Document) -> List[Match]:
        """Matches, best first, at most one for an item; each with the line where it begins."""
        text = "\n".join(document.leaves)
        words = words_of(text)
        shapes, parts = self.shapes.candidates(words)
        shapes = held(shapes, words, HELD)
        best: Dict[int, Match] = {}
        if shapes or parts:
            self._copies(document, shapes, parts, best)
            self._near(document, shapes, best)
        if self.code and "def " in text:
            self._code(document, text, best)
        return sorted(best.values(), key=lambda match: (-match["combined_score"], match["ref_index"]))

    def _note(
        self, best: Dict[int, Match], item: int, kind: str, scores: Dict[str, float], top: str, line: int
    ) -> None:
        score = round(scores[top], 4)
        if item not in best or best[item]["combined_score"] < score:
            best[item] = {
                "ref_index": item, "combined_score": score, "best_field": top, "best_field_score": score,
                "field_scores": {name: round(value, 4) for name, value in scores.items()},
                "threshold": {"copy": ALONE, "code": 1.0}.get(kind, NEAR),
                "cumulative_tokens": sum(map(len, self.copies.flat[item].values())), "kind": kind, "line": line,
            }  # fmt: skip

    def _copies(self, document: Document, shapes: List[Shape], parts: List[Part], best: Dict[int, Match]) -> None:
        leaves = [tokens_of(leaf) for leaf in document.leaves]
        there = frozenset(chain.from_iterable(leaves))
        parts = parts + [part for shape in shapes for part in shape.parts_with(there)]
        starts, at = [], 0
        for leaf in leaves:
            starts.append(at)
            at += len(leaf)
        for hit in self.copies.search(leaves, parts):
            line = document.lines[bisect_right(starts, hit.position) - 1]
            self._note(best, hit.part.item, "copy", hit.scores, hit.part.name, line)

    def _near(self, document: Document, shapes: List[Shape], best: Dict[int, Match]) -> None:
        left = [shape for shape in shapes if any(part.item not in best for part in shape.parts)]
        if not any(shape.comparable for shape in left):
            return
        for shape, share, first, last in self.shapes.compare([words_of(leaf) for leaf in document.leaves], left):
            there = Counter(tokens_of(" ".join(document.leaves[first : last + 1])))
            for part in shape.parts:
                if part.name == "question" and part.item not in best and not part.support:
                    numbers = Counter(token for token in part.tokens if token[0].isdigit())
                    kind = "numbers" if numbers - there else "near"
                    self._note(best, part.item, kind, {"question": share}, "question", document.lines[first])

    def _code(self, document: Document, text: str, best: Dict[int, Match]) -> None:
        ends, at = [], 0
        for leaf in document.leaves:
            at += len(leaf) + 1
            ends.append(at)
        for place, digest in functions(text):
            for item in self.code.get(digest, ()):
                if item not in best:
                    line = document.lines[bisect_right(ends, place)]
                    self._note(best, item, "code", {"code": 1.0}, "code", line)

    def self_test(self) -> List[int]:
        """Items that would not be found as copies in a document made of exactly that item; must be empty."""
        missed = []
        for number, item in enumerate(self.items):
            if number in self.unusable:
                continue
            leaves = list(fields_of(item).values())
            found = self.search(Document(leaves, [1] * len(leaves)))
            if all(match["ref_index"] != number or match["kind"] != "copy" for match in found):
                missed.append(number)
        return missed
