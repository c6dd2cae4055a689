"""The command line of the contamination checker (E §3.9)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Callable, Iterator, List, Optional, Sequence

from contamination.compat import CompatIndex, cl100k, compat_text
from contamination.fields import Match, load_reference, parse
from contamination.reading import Report, documents, walk
from contamination.scan import Piece, cores, pieces, search_all
from contamination.strict import StrictIndex

Emit = Callable[[str, int, List[Match]], None]


def inputs(options: argparse.Namespace, report: Report) -> Iterator[Piece]:
    """The pieces of everything named by --input."""
    limit, reference = options.max_mb << 20, os.stat(options.reference)
    for name in options.input:
        whole = os.path.isdir(name)
        for path in walk(name, report) if whole else [name]:
            if whole and os.path.samestat(os.lstat(path), reference):
                report.skip(path, "is the reference file")
                continue
            yield from pieces(path, limit, options.input_format == "text" and not whole)


def strict(options: argparse.Namespace, items: List[Match], emit: Emit) -> Report:
    """Self-test, then every document of every input."""
    index = StrictIndex(items)
    missed = index.self_test()
    if missed or len(index.unusable) == len(items):
        what = "items %s" % missed[:10] if missed else "no item with a question"
        print("error: self-test failed, the reference set would not be found: %s" % what, file=sys.stderr)
        raise SystemExit(2)
    report, limit = Report(), options.max_mb << 20
    for item in index.unusable:
        report.skip("reference item %d" % item, "has no words to look for")
    if not options.input:
        suffix = ".txt" if options.input_format == "text" else ".jsonl"
        for document in documents(sys.stdin.buffer, suffix, "stdin", report, limit):
            report.documents += 1
            matches = index.search(document)
            if matches:
                emit("", min(match["line"] for match in matches), matches)
    before, path = 0, ""
    for piece, found in search_all(index, inputs(options, report), limit, options.jobs):
        before = before if piece.path == path and piece.begin else 0
        path = piece.path
        for line, matches in found.hits:
            for match in matches:
                match["line"] += before
            emit(path, line + before, matches)
        before += found.lines
        report.documents += found.documents
        report.not_scanned += found.not_scanned
    return report


def compat(options: argparse.Namespace, items: List[Match], emit: Emit) -> Report:
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


def command_line(mode: str, words: str) -> argparse.ArgumentParser:
    """The options; `mode` is the one without --mode."""
    parser = argparse.ArgumentParser(description=words, allow_abbrev=False)
    parser.add_argument("-r", "--reference", required=True, metavar="FILE")
    parser.add_argument("-i", "--input", action="append", default=[], metavar="PATH", help="file or folder; repeatable")
    parser.add_argument("--input-format", choices=("jsonl", "text"), default="jsonl", help="text: files as well")
    parser.add_argument("--text-field", default="text", metavar="NAME", help="compat only; strict reads every string")
    parser.add_argument("--show-ref", action="store_true")
    parser.add_argument("--mode", choices=("strict", "compat"), default=mode)
    parser.add_argument("--max-mb", type=int, default=1024, metavar="N", help="strict: MB read of one file")
    parser.add_argument(
        "--jobs", type=int, default=cores(), metavar="N", help="strict: processes (default %(default)s)"
    )
    return parser


def main(argv: Optional[Sequence[str]] = None, mode: str = "strict", words: str = "") -> int:
    """Run the command line; returns the exit code."""
    options = command_line(mode, words).parse_args(argv)
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
