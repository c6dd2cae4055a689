"""Compat mode: the published n-gram checker, step for step, its blind spots included (E §3.9). Needs cl100k tokens."""

from __future__ import annotations

import math
import string
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple

from contamination.fields import Match, fields_of

PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "“”‘’—", " "))
QUESTION_FLOOR = (0.8 - 0.3) / 0.7  # with this share of the question, a whole answer and passage just reach 0.8
SIZES = {"question": 5, "answer": 3, "passage": 4}
WEIGHTS = {
    ("question",): (1.0,),
    ("question", "answer"): (0.75, 0.25),
    ("question", "passage"): (0.85, 0.15),
    ("question", "answer", "passage"): (0.7, 0.2, 0.1),
}
Ids = Tuple[int, ...]


def clean(text: str) -> str:
    """Lower case, punctuation as blanks, blanks collapsed."""
    return " ".join(text.lower().translate(PUNCTUATION).split())


def threshold(tokens: int, base: float) -> float:
    """Needed score for a text of so many tokens: 1 up to 20, `base` from 50, a straight line between."""
    return 1.0 if tokens <= 20 else base if tokens >= 50 else 1 - (1 - base) * (tokens - 20) / 30


def cl100k() -> Callable[[str], List[int]]:
    """The cl100k tokenizer of whichever package is installed."""
    try:
        import bpe_openai as package
    except ImportError:
        try:
            import tiktoken as package
        except ImportError:
            raise SystemExit("error: compat mode needs tiktoken or bpe_openai; strict needs neither") from None
    encode: Callable[[str], List[int]] = package.get_encoding("cl100k_base").encode_ordinary
    return encode


@dataclass
class Entry:
    """One indexed reference item of compat mode."""

    tokens: Dict[str, List[int]]
    grams: Dict[str, FrozenSet[Ids]] = field(default_factory=dict)
    total: Dict[str, float] = field(default_factory=dict)


@dataclass
class Cluster:
    """What one expansion found of one item."""

    start: int
    end: int
    misses: int = 0
    matched: Dict[Ids, None] = field(default_factory=dict)


def runs_of(tokens: Sequence[int], size: int) -> List[Ids]:
    """All runs of `size` token ids, in order."""
    return list(zip(*(tokens[start:] for start in range(size)), strict=False))


class CompatIndex:
    """The published algorithm, step for step (E §3.9), its blind spots included."""

    def __init__(self, items: Sequence[Any], encode: Callable[[str], List[int]]) -> None:
        self.encode, self.total_items = encode, len(items)
        self.entries: Dict[int, Entry] = {}
        blank, seen = encode(" "), set()
        for number, item in enumerate(items):
            cleaned = {name: clean(text) for name, text in fields_of(item).items()}
            combined = " ".join(cleaned[name] for name in ("passage", "question", "answer") if cleaned.get(name))
            if isinstance(item, dict) and item.get("fingerprint"):
                key = (str(item.get("eval_key")), str(item["fingerprint"]))
                if key in seen:
                    continue
                seen.add(key)
            enough = sum(1 for token in encode(" " + combined) if [token] != blank)
            if len(set(combined.split())) >= 4 and enough >= 20:
                self.entries[number] = Entry({name: encode(" " + text) for name, text in cleaned.items() if text})
        df: Dict[str, Counter[Ids]] = {name: Counter() for name in SIZES}
        self.by_gram: Dict[Ids, List[int]] = {}
        for number, entry in self.entries.items():
            for name, tokens in entry.tokens.items():
                short = name == "answer" and len(tokens) <= 3
                entry.grams[name] = frozenset() if short else frozenset(runs_of(tokens, SIZES[name]))
                df[name].update(entry.grams[name])
            for gram in entry.grams.get("question", ()):
                self.by_gram.setdefault(gram, []).append(number)
        self.idf = {
            name: {g: math.log(self.total_items / n) if n < self.total_items else 0.0 for g, n in counts.items()}
            for name, counts in df.items()
        }
        for entry in self.entries.values():
            entry.total = {name: sum(self.idf[name][gram] for gram in grams) for name, grams in entry.grams.items()}

    def search(self, text: str) -> List[Match]:
        """Matches by falling score, the best one for each item."""
        tokens = self.encode(" " + clean(text))
        grams = runs_of(tokens, 5)
        best: Dict[int, Match] = {}
        at = 0
        while at < len(grams):
            if grams[at] not in self.by_gram:
                at += 10
                continue
            clusters, right = self.expand(grams, at)
            for number, cluster in clusters.items():
                match = self.score(number, cluster, tokens)
                if match and (number not in best or best[number]["combined_score"] < match["combined_score"]):
                    best[number] = match
            at = max(at, right) + 1
        return sorted(best.values(), key=lambda match: -match["combined_score"])

    def expand(self, grams: List[Ids], seed: int) -> Tuple[Dict[int, Cluster], int]:
        """Clusters around a seed, and the last position visited to the right."""
        clusters = {number: Cluster(seed, seed) for number in self.by_gram[grams[seed]]}
        for cluster in clusters.values():
            cluster.matched[grams[seed]] = None
        right = seed
        for step, stop in ((-1, -1), (1, len(grams))):
            active = set(clusters)
            for cluster in clusters.values():
                cluster.misses = 0
            for at in range(seed + step, stop, step):
                if not active:
                    break
                right = max(right, at)
                having = set(self.by_gram.get(grams[at], ()))
                for number in list(active):
                    cluster = clusters[number]
                    if number not in having:
                        cluster.misses += 1
                        if cluster.misses >= 11:
                            active.discard(number)
                        continue
                    if grams[at] not in cluster.matched:
                        cluster.matched[grams[at]] = None
                        cluster.misses = 0
                    if step < 0:
                        cluster.start = at
                    else:
                        cluster.end = at
        return clusters, right

    def share(self, number: int, name: str, found: Iterable[Ids]) -> float:
        """Weight of the n-grams found, of the field's whole weight."""
        total = self.entries[number].total[name]
        return sum(self.idf[name][gram] for gram in set(found)) / total if total else 0.0

    def score(self, number: int, cluster: Cluster, tokens: List[int]) -> Optional[Match]:
        """The match that a cluster is, or None."""
        entry = self.entries[number]
        length = len(entry.tokens["question"])
        question = self.share(number, "question", cluster.matched)
        if question < QUESTION_FLOOR or question < threshold(length, QUESTION_FLOOR):
            return None
        last = cluster.end + 4
        last -= max(0, last - cluster.start + 1 - length)
        scores = {"question": question}
        if "answer" in entry.tokens:
            scores["answer"] = self.answer(number, tokens, last + 1)
        if "passage" in entry.tokens:
            scores["passage"] = self.passage(number, tokens, cluster.start)
        names = tuple(scores)
        weights = dict(zip(names, WEIGHTS[names], strict=True))
        few, others = len(entry.grams["question"]), names[1:]
        if few < 20 and others:
            lost = weights["question"] * (0.5 - 0.5 * few / 20)
            weights["question"] -= lost
            for name in others:
                weights[name] += lost / len(others)
        distinct = len(set(entry.tokens.get("answer", ())))
        if len(names) == 3 and distinct < 4:
            lost = weights["answer"] * (0.5 - 0.5 * distinct / 4)
            weights["answer"] -= lost
            weights["passage"] += lost
        combined = min(1.0, sum(weights[name] * scores[name] for name in names))
        size = sum(len(part) for part in entry.tokens.values())
        if combined < threshold(size, 0.8):
            return None
        top = max(names, key=lambda name: scores[name])
        return {
            "ref_index": number, "combined_score": round(combined, 4), "best_field": top,
            "best_field_score": round(scores[top], 4),
            "field_scores": {name: round(score, 4) for name, score in scores.items()},
            "threshold": round(threshold(size, 0.8), 4), "cumulative_tokens": size,
        }  # fmt: skip

    def answer(self, number: int, tokens: List[int], begin: int) -> float:
        """Score of the answer in the stretch behind the question."""
        wanted = self.entries[number].tokens["answer"]
        if len(wanted) <= 3:
            return float(tuple(wanted) in runs_of(tokens[begin : begin + 50], len(wanted)))
        grams = self.entries[number].grams["answer"]
        found = runs_of(tokens[begin : begin + max(2 * len(wanted), 100)], 3)
        return self.share(number, "answer", grams.intersection(found))

    def passage(self, number: int, tokens: List[int], end: int) -> float:
        """Score of the passage, read backwards from the question."""
        wanted, grams = self.entries[number].tokens["passage"], self.entries[number].grams["passage"]
        found, misses = set(), 0
        for gram in reversed(runs_of(tokens[max(0, end - max(2 * len(wanted), 100)) : end], 4)):
            if gram in grams:
                found.add(gram)
                misses = 0
            elif found:
                misses += 1
                if misses == 3:
                    break
        return self.share(number, "passage", found)


def compat_text(value: Any, name: str) -> str:
    """The one text that compat mode reads of a record."""
    if not isinstance(value, dict):
        return ""
    for key in (name, "text", "content", "input", "prompt", "question"):
        if isinstance(value.get(key), str):
            return str(value[key])
    return " ".join(inner for inner in value.values() if isinstance(inner, str))
