#!/usr/bin/env python3
"""Find benchmark items inside data: `contamination_check.py -r test_data.json -i train.jsonl` (E §3.9).

`--mode strict` (default) needs only the standard library: every string of every record counts, a copied question is
a hit whatever answer follows it, numbers must agree, and what could not be read is said instead of counted as clean.
`--mode compat` is the published n-gram checker, cl100k tokens included; it needs `tiktoken` or `bpe_openai`.
stdout: one JSON line per contaminated document. Exit: 0 none, 1 some (or no reference file), 2 wrong use or a failed
self-test. A hit proves guilt; no hit proves nothing: paraphrases and translations pass.
"""

# One file, longer than any other here, because it is copied alone into sandboxes.
from __future__ import annotations

import argparse
import gzip
import io
import json
import math
import os
import re
import stat
import string
import sys
import unicodedata
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

DEFAULT_MODE = "strict"  # a protocol may hand its agents a copy that says "compat"
FIELD_KEYS = {
    "question": ("question", "input", "prompt", "text", "content"),
    "answer": ("answer", "output", "response", "target"),
    "passage": ("passage", "context", "document"),
}
Gram = Tuple[str, ...]
Match = Dict[str, Any]

# ---------------------------------------------------------------- reading: every input is hostile, every read bounded

MAX_PIECE = 1 << 20  # characters held of one line
MAX_JSON = 32 << 20  # bytes of a .json file that is parsed whole; a larger one is read as text
MAX_FILES = 20_000
BLOCK = 4_000  # lines of text looked at together
OVERLAP = 400  # lines, and
OVERLAP_SIZE = 40_000  # characters repeated at the start of the next block, so that no item is cut in two
BINARY = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".npy", ".npz", ".pkl", ".pickle", ".so", ".pyc")
PACKED = (".zip", ".tar", ".tgz", ".xz", ".bz2", ".zst", ".7z", ".eval")


class Document(NamedTuple):
    """One record or one stretch of text: its strings, and the line where each begins."""

    leaves: List[str]
    lines: List[int]


@dataclass
class Report:
    """What was looked at, and what was not and why."""

    files: int = 0
    documents: int = 0
    not_scanned: List[Tuple[str, str]] = field(default_factory=list)

    def skip(self, name: str, reason: str) -> None:
        """Remember that `name` was not (wholly) scanned."""
        self.not_scanned.append((name, reason))


def strings_of(value: Any) -> Iterator[str]:
    """Every string and number in a JSON value, in order; long keys too, chat roles not."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            for key, inner in reversed(list(item.items())):
                if key in ("role", "from") and isinstance(inner, str) and len(inner) < 20:
                    continue
                todo.append(inner)
                if isinstance(key, str) and len(key) > 20:
                    todo.append(key)
        elif isinstance(item, (list, tuple)):
            todo.extend(reversed(item))
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            yield repr(item)


def parse(text: str) -> Any:
    """The JSON value in `text`; None when there is none (also when it is nested too deep)."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def open_regular(path: str) -> Optional[IO[bytes]]:
    """A regular file opened without following a link in its last part; None for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return os.fdopen(fd, "rb")


class Capped(io.RawIOBase):
    """At most `limit` bytes of a stream; `cut` says whether there was more."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self.stream, self.left, self.cut = stream, limit, False

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer`; 0 at the end or at the limit."""
        if self.left <= 0:
            self.cut = self.cut or bool(self.stream.read(1))
            return 0
        data = self.stream.read(min(len(buffer), self.left))
        buffer[: len(data)] = data
        self.left -= len(data)
        return len(data)


def numbered(text: IO[str]) -> Iterator[Tuple[int, str]]:
    """(line number, line), overlong lines in pieces that share the number."""
    number, fresh = 0, True
    while True:
        piece = text.readline(MAX_PIECE)
        if not piece:
            return
        number += fresh
        fresh = piece.endswith("\n")
        yield number, piece


def tail(block: List[Tuple[int, str]]) -> List[Tuple[int, str]]:
    """The end of a block, which the next one begins with."""
    kept: List[Tuple[int, str]] = []
    room = OVERLAP_SIZE
    for number, line in reversed(block[-OVERLAP:]):
        kept.insert(0, (number, line[-room:]))
        room -= len(line)
        if room <= 0:
            break
    return kept


def text_blocks(lines: Iterable[Tuple[int, str]]) -> Iterator[Document]:
    """Plain text as overlapping documents."""
    block: List[Tuple[int, str]] = []
    size, new = 0, False
    for number, line in lines:
        block.append((number, line))
        size, new = size + len(line), True
        if len(block) >= BLOCK or size >= MAX_PIECE:
            yield Document([text for _, text in block], [at for at, _ in block])
            block, size, new = tail(block), 0, False
    if new:
        yield Document([text for _, text in block], [at for at, _ in block])


def record(value: Any, line: int) -> Document:
    """A JSON value as one document."""
    leaves = list(strings_of(value))
    return Document(leaves, [line] * len(leaves))


def json_lines(lines: Iterable[Tuple[int, str]]) -> Iterator[Document]:
    """One document a line; a line that is no JSON is read as text."""
    for number, line in lines:
        value = parse(line)
        if value is not None or line.strip():
            yield record(line if value is None else value, number)


def json_whole(value: Any) -> Iterator[Document]:
    """A parsed .json file: the elements of its lists are documents (line: place in the list), the rest is one."""
    lists = [value] if isinstance(value, list) else []
    rest: Any = {}
    if isinstance(value, dict):
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        rest = {key: inner for key, inner in value.items() if not isinstance(inner, list)}
    elif not lists:
        rest = value
    for entries in lists:
        for place, entry in enumerate(entries, 1):
            yield record(entry, place)
    if rest:
        yield record(rest, 1)


def documents(stream: IO[bytes], suffix: str, name: str, report: Report, limit: int) -> Iterator[Document]:
    """The documents of one opened file. Whatever cannot be read ends up in `report`."""
    if suffix in (".parquet", ".arrow"):
        yield from columns(stream, suffix, name, report)
        return
    capped = Capped(stream, limit)
    buffered = io.BufferedReader(capped, 1 << 16)
    head = buffered.peek(4096)[:4096]
    wide = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\0" in head and not wide:
        report.skip(name, "binary")
        return
    text = io.TextIOWrapper(buffered, encoding="utf-16" if wide else "utf-8-sig", errors="replace", newline="\n")
    lines = numbered(text)
    if suffix in (".jsonl", ".ndjson"):
        yield from json_lines(lines)
    elif suffix == ".json":
        whole = text.read(MAX_JSON)
        value = parse(whole)
        if value is not None:
            yield from json_whole(value)
        else:
            yield from text_blocks(chain(numbered(io.StringIO(whole)), lines))
    else:
        yield from text_blocks(lines)
    if capped.cut:
        report.skip(name, "only its first %d MB were scanned" % (limit >> 20))


def columns(stream: IO[bytes], suffix: str, name: str, report: Report) -> Iterator[Document]:
    """Rows of a parquet or arrow file."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        report.skip(name, "needs pyarrow")
        return
    at = 0
    try:
        if suffix == ".parquet":
            batches = pyarrow.parquet.ParquetFile(stream).iter_batches(batch_size=256)
        else:
            batches = pyarrow.ipc.open_stream(stream)
        for batch in batches:
            for row in batch.to_pylist():
                at += 1
                yield record(row, at)
    except (pyarrow.ArrowException, OSError, ValueError):
        report.skip(name, "damaged %s after row %d" % (suffix, at))


def walk(root: str, report: Report) -> Iterator[str]:
    """Files below a folder, by name, links never followed."""
    todo, seen = [root], 0
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            report.skip(folder, "unreadable folder")
            continue
        for entry in entries:
            if entry.is_symlink():
                report.skip(entry.path, "symbolic link")
            elif entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
            elif seen >= MAX_FILES:
                report.skip(root, "more than %d files" % MAX_FILES)
                return
            else:
                seen += 1
                yield entry.path


def read_file(path: str, report: Report, limit: int, as_text: bool = False) -> Iterator[Document]:
    """The documents of the file at `path` by its suffix (`.gz` is unpacked)."""
    base, suffix = os.path.splitext(path.lower())
    if suffix in BINARY or suffix in PACKED:
        report.skip(path, "binary" if suffix in BINARY else "archive")
        return
    stream = open_regular(path)
    if stream is None:
        report.skip(path, "not a readable regular file")
        return
    report.files += 1
    with stream:
        try:
            if suffix == ".gz":
                packed = gzip.GzipFile(fileobj=stream)
                yield from documents(packed, os.path.splitext(base)[1], path, report, limit)  # type: ignore[arg-type]
            else:
                yield from documents(stream, ".txt" if as_text else suffix, path, report, limit)
        except (OSError, EOFError, zlib.error) as error:
            report.skip(path, "damaged: %s" % type(error).__name__)


# ---------------------------------------------------------------------------------------------------- strict mode

SHORT = 8  # a question of fewer tokens is compared whole
ALONE = 0.9  # share of a question (weighted by rarity) that is a hit whatever else the document holds
SUPPORTED = 0.75  # the same when the answer is in the document too
LONG_ANSWER = 40  # tokens from which an answer alone is a hit
NUMBERS = dict(zero="0", one="1", two="2", three="3", four="4", five="5", six="6", seven="7", eight="8", nine="9")
NUMBERS.update(ten="10", eleven="11", twelve="12", thirteen="13", fourteen="14", fifteen="15", sixteen="16")
NUMBERS.update(seventeen="17", eighteen="18", nineteen="19", twenty="20", thirty="30", forty="40", fifty="50")
NUMBERS.update(sixty="60", seventy="70", eighty="80", ninety="90")
NUMBERS.update(hundred="100", thousand="1000", twice="2x", double="2x", thrice="3x", triple="3x", half="1/2")
TOKEN = re.compile(r"\d+(?:\.\d+)?|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W\d_]+|[-+*/^=<>%](?=\s*[\d(])")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
SIGNS = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "⁄": "/"})


def tokens_of(text: str) -> List[str]:
    """Words, numbers and arithmetic signs: case, accents, width, invisible characters and punctuation do not count."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text).translate(SIGNS)
        text = "".join(char for char in text if unicodedata.category(char) not in ("Mn", "Cf"))
    if "\\" in text:
        text = re.sub(r"\\[nrt]", " ", text)
    text = THOUSANDS.sub("", text.lower())
    return [NUMBERS.get(token, token) for token in TOKEN.findall(text)]


def grams_of(tokens: Sequence[str], size: int) -> List[Gram]:
    """All runs of `size` tokens, in order."""
    return list(zip(*(tokens[start:] for start in range(size)), strict=False))


@dataclass
class Part:
    """The question, or a long answer, of one reference item, ready to be found."""

    item: int
    name: str
    tokens: List[str]
    grams: Dict[Gram, float]
    numbers: List[FrozenSet[Gram]]
    anchors: List[Gram] = field(default_factory=list)
    total: float = 0.0
    support: bool = False  # says too little by itself: the answer or the passage must be there as well


def part_of(item: int, name: str, leaves: List[List[str]]) -> Part:
    """A part without weights; 5-grams do not reach from one string into the next."""
    grams: Dict[Gram, float] = {}
    numbers: List[FrozenSet[Gram]] = []
    for tokens in leaves:
        runs = grams_of(tokens, 5)
        grams.update(dict.fromkeys(runs, 0.0))
        for at, token in enumerate(tokens):
            covering = frozenset(runs[max(0, at - 4) : at + 1])
            if token[0].isdigit() and covering:
                numbers.append(covering)
    return Part(item, name, [token for tokens in leaves for token in tokens], grams, numbers)


def leaves_of(value: str) -> List[List[str]]:
    """Token lists of a reference field; a field that is itself JSON (chat prompts) gives one list a string."""
    inner = parse(value) if value.lstrip()[:1] in ("[", "{") else None
    return [tokens for tokens in map(tokens_of, strings_of(value if inner is None else inner)) if tokens]


class StrictIndex:
    """Reference items in a form in which documents are searched fast.

    A document holds an item if, within a stretch little longer than the question, at least 90 % of the question's
    5-grams by weight are found (75 % if the answer is somewhere in the document) and every number of it is among them.
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items
        self.fields = [{name: leaves_of(value) for name, value in fields_of(item).items()} for item in items]
        self.flat = [{name: list(chain.from_iterable(found)) for name, found in item.items()} for item in self.fields]
        self.anchors: Dict[Gram, List[Part]] = {}
        self.short: Dict[Gram, List[Part]] = {}
        self.unusable: List[int] = []
        parts = []
        same = Counter(tuple(flat.get("question", ())) for flat in self.flat)
        for number, (fields, flat) in enumerate(zip(self.fields, self.flat, strict=True)):
            question = part_of(number, "question", fields.get("question", []))
            bare = len(question.tokens) < 5 and not any(token[0].isdigit() for token in question.tokens)
            question.support = (same[tuple(question.tokens)] > 2 or bare) and len(flat) > 1
            if len(question.tokens) >= SHORT and question.grams:
                parts.append(question)
            elif question.tokens:
                self.short.setdefault(tuple(question.tokens), []).append(question)
            else:
                self.unusable.append(number)
            if len(flat.get("answer", ())) >= LONG_ANSWER:
                parts.append(part_of(number, "answer", fields["answer"]))
        self.sizes = sorted({len(key) for key in self.short})
        frequency = Counter(gram for part in parts for gram in part.grams)
        self.frequency: Counter[Gram] = frequency
        for part in parts:
            self.weigh(part)

    def weigh(self, part: Part) -> None:
        """Weights by rarity; the rarest 5-grams, 30 % of the weight, are anchors: without one there is no hit."""
        for gram in part.grams:
            part.grams[gram] = math.log(1 + len(self.items) / self.frequency[gram])
        part.total = sum(part.grams.values())
        reached = 0.0
        for gram, weight in sorted(part.grams.items(), key=lambda pair: (-pair[1], pair[0])):
            part.anchors.append(gram)
            self.anchors.setdefault(gram, []).append(part)
            reached += weight
            if reached > 0.3 * part.total:
                return

    def search(self, document: Document) -> List[Match]:
        """Matches, best first, at most one for an item; each with the line where it begins."""
        leaves = [tokens_of(leaf) for leaf in document.leaves]
        tokens = [token for leaf in leaves for token in leaf]
        starts, at = [], 0
        for leaf in leaves:
            starts.append(at)
            at += len(leaf)
        best: Dict[int, Match] = {}

        def note(part: Part, scores: Dict[str, float], position: int) -> None:
            score = scores[part.name]
            if part.item not in best or best[part.item]["combined_score"] < score:
                line = document.lines[bisect_right(starts, position) - 1]
                size = sum(map(len, self.flat[part.item].values()))
                rounded = {name: round(value, 4) for name, value in scores.items()}
                best[part.item] = {
                    "ref_index": part.item, "combined_score": round(score, 4), "best_field": part.name,
                    "best_field_score": round(score, 4), "field_scores": rounded, "threshold": ALONE,
                    "cumulative_tokens": size, "line": line,
                }  # fmt: skip

        runs = grams_of(tokens, 5)
        candidates = {id(part): part for gram in self.anchors.keys() & set(runs) for part in self.anchors[gram]}
        where: Dict[Gram, List[int]] = {}
        for position, gram in enumerate(runs if candidates else ()):
            if gram in self.frequency:
                where.setdefault(gram, []).append(position)
        held: Dict[int, FrozenSet[Gram]] = {}
        for part in sorted(candidates.values(), key=lambda part: (part.item, part.name)):
            share, position = self.densest(part, where)
            if share < SUPPORTED:
                continue
            scores = {part.name: share}
            if part.name == "question":
                scores.update(self.supported(part.item, tokens, held))
            helped = max([score for name, score in scores.items() if name != part.name], default=0.0) >= 0.8
            if (share >= ALONE and not part.support) or helped:
                note(part, scores, position)
        for part, position, whole in self.shorts(leaves, starts, tokens):
            near = self.supported(part.item, tokens[position : position + 200], {}) if not whole else {}
            scores = {"question": 1.0, **(near or self.supported(part.item, tokens, held))}
            helped = any(score >= 0.8 for name, score in scores.items() if name != "question")
            alone = whole or (len(part.tokens) >= 6 and len(self.flat[part.item]) == 1)
            if helped or (alone and not part.support):
                note(part, scores, position)
        return sorted(best.values(), key=lambda match: (-match["combined_score"], match["ref_index"]))

    def shorts(self, leaves: List[List[str]], starts: List[int], tokens: List[str]) -> Iterator[Tuple[Part, int, bool]]:
        """(part, position, whether a whole string equals it) of short questions."""
        if not self.short:
            return
        for leaf, start in zip(leaves, starts, strict=True):
            for part in self.short.get(tuple(leaf), ()):
                yield part, start, True
        for size in self.sizes:
            found: Dict[Gram, int] = {}
            for position, run in enumerate(grams_of(tokens, size)):
                if run in self.short:
                    found.setdefault(run, position)
            for key, position in found.items():
                for part in self.short[key]:
                    yield part, position, False

    def densest(self, part: Part, places: Dict[Gram, List[int]]) -> Tuple[float, int]:
        """Best share of the part's weight inside one stretch, and where it begins; 0 if a number is missing there."""
        if sum(weight for gram, weight in part.grams.items() if gram in places) < SUPPORTED * part.total:
            return 0.0, 0
        width = len(part.tokens) + max(20, len(part.tokens) // 2)
        around: List[List[int]] = []
        for at in sorted(at for gram in part.anchors for at in places.get(gram, ())):
            if around and at - width <= around[-1][1]:
                around[-1][1] = at + width
            else:
                around.append([at - width, at + width])
        found = sorted(
            (at, gram)
            for gram in part.grams
            for at_all in (places.get(gram, ()),)
            for low, high in around
            for at in at_all[bisect_left(at_all, low) : bisect_right(at_all, high)]
        )
        inside: Counter[Gram] = Counter()
        weight, first, best, where = 0.0, 0, 0.0, (0, 0)
        for last, (at, gram) in enumerate(found):
            weight += 0.0 if inside[gram] else part.grams[gram]
            inside[gram] += 1
            while at - found[first][0] > width:
                old = found[first][1]
                inside[old] -= 1
                weight -= 0.0 if inside[old] else part.grams[old]
                first += 1
            if weight > best + 1e-9:
                best, where = weight, (first, last + 1)
        seen = {gram for _, gram in found[where[0] : where[1]]}
        if any(seen.isdisjoint(covering) for covering in part.numbers):
            return 0.0, 0
        return min(1.0, best / part.total), found[where[0]][0]

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

    def self_test(self) -> List[int]:
        """Items that would not be found in a document made of exactly that item; must be empty."""
        missed = []
        for number, item in enumerate(self.items):
            if number in self.unusable:
                continue
            leaves = list(fields_of(item).values())
            if all(match["ref_index"] != number for match in self.search(Document(leaves, [1] * len(leaves)))):
                missed.append(number)
        return missed


# ---------------------------------------------------------------------------------------------------- compat mode

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


def fields_of(item: Any) -> Dict[str, str]:
    """question, answer and passage of a reference item: the first non-blank string of each group of keys."""
    found: Dict[str, str] = {}
    if isinstance(item, dict):
        for name, keys in FIELD_KEYS.items():
            for key in keys:
                if isinstance(item.get(key), str) and item[key].strip():
                    found[name] = item[key]
                    break
    return found or {"question": " ".join(strings_of(item))}


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


# ------------------------------------------------------------------------------------------------------ command line

Emit = Callable[[str, int, List[Match]], None]


def load_reference(path: str) -> List[Any]:
    """Items of a reference file: a JSON array, else JSON lines. Raises OSError or ValueError."""
    with open(path, encoding="utf-8-sig") as stream:
        text = stream.read()
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def inputs(options: argparse.Namespace, report: Report) -> Iterator[Tuple[str, Iterator[Document]]]:
    """(file name, documents) of everything named by --input, else of stdin."""
    limit = options.max_mb << 20
    if not options.input:
        suffix = ".txt" if options.input_format == "text" else ".jsonl"
        yield "", documents(sys.stdin.buffer, suffix, "stdin", report, limit)
    reference = os.stat(options.reference)
    for name in options.input:
        whole = os.path.isdir(name)
        for path in walk(name, report) if whole else [name]:
            if whole and os.path.samestat(os.lstat(path), reference):
                report.skip(path, "is the reference file")
                continue
            yield path, read_file(path, report, limit, options.input_format == "text" and not whole)


def strict(options: argparse.Namespace, items: List[Any], emit: Emit) -> Report:
    """Self-test, then every document of every input."""
    index = StrictIndex(items)
    missed = index.self_test()
    if missed or len(index.unusable) == len(items):
        what = "items %s" % missed[:10] if missed else "no item with a question"
        print("error: self-test failed, the reference set would not be found: %s" % what, file=sys.stderr)
        raise SystemExit(2)
    report = Report()
    for item in index.unusable:
        report.skip("reference item %d" % item, "has no words to look for")
    for path, found in inputs(options, report):
        for document in found:
            report.documents += 1
            matches = index.search(document)
            if matches:
                emit(path, min(match["line"] for match in matches), matches)
    return report


def compat(options: argparse.Namespace, items: List[Any], emit: Emit) -> Report:
    """Every line of every input file; no folders."""
    index = CompatIndex(items, cl100k())
    report = Report()
    for path in options.input or [""]:
        with open(path or 0, encoding="utf-8", errors="replace") as stream:
            for number, line in enumerate(stream, 1):
                text = line.strip()
                if options.input_format == "jsonl":
                    text = compat_text(parse(text), options.text_field)
                if not text:
                    if line.strip():
                        report.skip("%s:%d" % (path or "stdin", number), "has no text field")
                    continue
                report.documents += 1
                matches = index.search(text)
                if matches:
                    emit(path, number, matches)
    return report


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("-r", "--reference", required=True, metavar="FILE")
    parser.add_argument("-i", "--input", action="append", default=[], metavar="PATH", help="file or folder; repeatable")
    parser.add_argument("--input-format", choices=("jsonl", "text"), default="jsonl", help="text: files as well")
    parser.add_argument("--text-field", default="text", metavar="NAME", help="compat only; strict reads every string")
    parser.add_argument("--show-ref", action="store_true")
    parser.add_argument("--mode", choices=("strict", "compat"), default=DEFAULT_MODE)
    parser.add_argument("--max-mb", type=int, default=1024, metavar="N", help="strict: MB read of one file")
    options = parser.parse_args(argv)
    try:
        items = load_reference(options.reference)
    except (OSError, ValueError, RecursionError) as error:
        print("error: reference %s: %s" % (options.reference, error), file=sys.stderr)
        return 1
    hits, total = 0, 0

    def emit(path: str, line: int, matches: List[Match]) -> None:
        nonlocal hits, total
        hits, total = hits + 1, total + len(matches)
        shown = [{**match, "ref_item": items[match["ref_index"]]} if options.show_ref else match for match in matches]
        line_out: Match = {"file": path} if path and options.mode == "strict" else {}
        line_out.update(source="line:%d" % line, num_matches=len(matches), max_score=matches[0]["combined_score"])
        print(json.dumps({**line_out, "matches": shown}), flush=False)

    try:
        report = (strict if options.mode == "strict" else compat)(options, items, emit)
    except OSError as error:
        print("error: %s" % error, file=sys.stderr)
        return 2
    for name, reason in report.not_scanned[:50]:
        print("not scanned: %s: %s" % (ascii(name)[1:-1], reason), file=sys.stderr)
    print(
        "documents scanned: %d, contaminated: %d, total matches: %d, not scanned: %d"
        % (report.documents, hits, total, len(report.not_scanned)),
        file=sys.stderr,
    )
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
