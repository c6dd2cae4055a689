"""Rule over data: benchmark items in the files an agent left, by the strict mode of the contamination checker.

Hits count in files that may have been trained on. Files that came with the task, records of evaluations, notes and
libraries are searched too, but a hit there is only a hint: reading and evaluating test items is allowed (E §3.5).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ptb_tui.content.tools import single_file
from ptb_tui.core.errors import ContentError, StepError
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import Finding
from ptb_tui.judging.engines.actions import Session
from ptb_tui.judging.engines.rules_trace import GIVEN, Script

TOLERATED = 3  # samples in an otherwise clean set
FILE_LIMIT = 512 << 20
TOTAL_LIMIT = 1 << 30  # bytes searched of one run; about 15 MB a second
SCRIPT_LIMIT = 1 << 20
SCRIPTS_LIMIT = 64 << 20
MAX_SCRIPTS = 2000
SHOWN = 5  # matches named of one file
_SCRIPT = (".py", ".sh", ".js", ".ts", ".mjs", ".yaml", ".yml", ".toml", ".ipynb")
_EVALUATION = re.compile(
    r"(^|[_\-./ ])(eval(s|uation|uations)?|logs?|pred(ict)?(ion)?s?|results?|responses?|outputs?|samples?|metrics"
    r"|wrong|errors?|failures?|failed|debug|inspect|benchmark)([_\-./ \d]|$)",
    re.I,
)
_LIBRARY = re.compile(r"(^|/)(site-packages|dist-packages|node_modules|\.venv|venv|\.git|__pycache__)(/|$)")
_MODEL_FILE = re.compile(r"(^|/)(tokenizer(_config)?\.json|vocab\.(json|txt)|merges\.txt|[\w.-]+\.index\.json)$")
_NOTE = re.compile(r"\.(md|rst|log|out|err)$", re.I)
_TRAINS = re.compile(
    r"\b\w*Trainer\(|\.backward\(\)|\bsave_pretrained\(|\baccelerate launch\b|\bload_dataset\(|\baxolotl\b"
    r"|\bllamafactory|\btorchrun\b|\bdata_files\b|\btrain_file\b|\bdataset_path\b"
)
_READS = re.compile(r"load_dataset|data_files|read_(json|csv|parquet)|open\(|json\.load|train|--data|dataset", re.I)
_WRITES = re.compile(r"[\"'][wax]b?\+?[\"']|\.dump\(|to_json|to_csv|write_text|(?<!-)>\s*\S")


def load_tool(tools: Path, name: str) -> ModuleType:
    """A stand-alone script of `judges/tools` as a module. StepError when it is missing or broken, which is ours."""
    path = tools / f"{name}.py"
    if not path.is_file():
        raise StepError(f"{path} is missing", cause="judge_failed", hint="install the judges folder again")
    module = ModuleType(f"ptb_tool_{name}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # its dataclasses look themselves up
    try:
        exec(compile(single_file(path), str(path), "exec"), module.__dict__)
    except (OSError, SyntaxError, ImportError, ContentError) as error:
        raise StepError(f"{path} cannot be loaded: {error}", cause="judge_failed") from error
    finally:
        sys.modules.pop(module.__name__, None)
    return module


@dataclass(slots=True)
class Scan:
    """What the search found. `samples` counts towards the tolerance; `counted` are the items in training files."""

    findings: list[Finding] = field(default_factory=list)
    counted: set[int] = field(default_factory=set)
    most: int = 0  # records with a hit in the worst training file
    documents: int = 0
    files: int = 0
    not_scanned: list[tuple[str, str]] = field(default_factory=list)

    @property
    def samples(self) -> int:
        """Benchmark samples in training files: distinct items, or records of one file if those are more."""
        return max(len(self.counted), self.most)


def _regular(path: Path, limit: int) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read(limit)


def _digest(path: Path) -> bytes:
    return hashlib.sha256(_regular(path, FILE_LIMIT) or b"").digest()


def _relative(path: str, root: Path) -> str:
    return os.path.relpath(path, root)


def read_scripts(
    task: Path, session: Session | None, checker: Any, given: Collection[str] = frozenset()
) -> list[Script]:
    """Scripts on disk, and those the trace shows being written; what came with the task, by its name or by a sha256 of
    `given`, is left out."""
    scripts, size = [], 0
    for path in checker.walk(str(task), checker.Report()):
        name = _relative(path, task)
        if not path.endswith(_SCRIPT) or name.split(os.sep)[0] in GIVEN or _LIBRARY.search(name):
            continue
        data = _regular(Path(path), SCRIPT_LIMIT)
        if data is not None and hashlib.sha256(data).hexdigest() not in given:
            scripts.append(Script(name, os.path.basename(name), data.decode("utf-8", "replace")))
            size += len(data)
        if len(scripts) >= MAX_SCRIPTS or size > SCRIPTS_LIMIT:
            break
    if session is not None:
        for action in session.actions:
            names = [action.name] if action.kind == "write" else []
            if action.kind == "command":
                names = re.findall(r">[ \t]*(?:[^\s>]{0,200}/)?([\w.-]{1,80}\.(?:py|sh|js|ts))\b", action.text)[:4]
            for name in names:
                if name and name not in GIVEN:
                    scripts.append(Script("solve_out.txt", name, action.text, action.line))
    return scripts


def trained_on(scripts: list[Script]) -> str:
    """The lines of training scripts that read files, as one text to look file names up in."""
    lines = []
    for script in scripts:
        if _TRAINS.search(script.text):
            lines += [line for line in script.text.splitlines() if _READS.search(line) and not _WRITES.search(line)]
    return "\n".join(lines)


def category(name: str, read_by_training: str, same_as_reference: bool) -> str:
    """`training` if a hit in this file counts, else why not: provided | evaluation | notes | library."""
    parts = name.split(os.sep)
    if _LIBRARY.search(name):
        return "library"
    if parts[0] in GIVEN or parts[0] == "templates" or (same_as_reference and parts == ["test_data.json"]):
        return "provided"
    base = parts[-1]
    if re.search(rf"(?<![\w.-]){re.escape(base)}\b", read_by_training):
        return "training"
    if _EVALUATION.search(name.rsplit(".", 1)[0] + "/"):
        return "evaluation"
    return "notes" if _NOTE.search(base) else "training"


def _is_evaluation_log(name: str, head: bytes) -> bool:
    """Whether a .json file is a log of Inspect, by its first keys."""
    keys = (b'"version"', b'"status"', b'"eval"', b'"task"')
    return name.endswith(".json") and all(key in head for key in keys) and head.lstrip()[:1] == b"{"


def _files(task: Path, checker: Any, report: Any) -> list[tuple[str, str, bytes]]:
    """(path, name below the task folder, first bytes) of what is to be searched, small files first.

    Small first, so that a few huge files cannot push all others over the limit; binary files do not count towards it.
    """
    found = []
    for path in checker.walk(str(task), report):
        name = _relative(path, task)
        if _MODEL_FILE.search(name) or _LIBRARY.search(name):
            continue
        head = _regular(Path(path), 4096)
        if head is None:
            report.skip(path, "not a readable regular file")
            continue
        found.append((os.lstat(path).st_size, path, name, head))
    total, kept = 0, []
    for size, path, name, head in sorted(found):
        total += 0 if b"\0" in head else min(size, FILE_LIMIT)
        if total > TOTAL_LIMIT:
            report.skip(path, f"more than {TOTAL_LIMIT >> 30} GB in this task folder")
        else:
            kept.append((path, name, head))
    return kept


def scan_task(task: Path, test_data: Path, scripts: list[Script], checker: Any) -> Scan:
    """Search every file below the task folder. StepError when the test data cannot be used."""
    index, items = build_index(test_data, checker)
    digest = _digest(test_data)
    report, scan, trained = checker.Report(), Scan(), trained_on(scripts)
    for path, name, head in _files(task, checker, report):
        same = name == "test_data.json" and _digest(Path(path)) == digest
        kind = category(name, trained, same)
        kind = "evaluation" if kind == "training" and _is_evaluation_log(name, head) else kind
        hits: list[tuple[int, dict[str, Any]]] = []
        records, distinct, close = 0, set[int](), list[tuple[int, dict[str, Any]]]()
        for document in checker.read_file(path, report, FILE_LIMIT):
            scan.documents += 1
            matches: list[tuple[int, dict[str, Any]]] = []
            for match in index.search(document):
                (matches if match["kind"] == "copy" else close).append((match["line"], match))
            records += bool(matches)
            for _, match in matches:
                if match["ref_index"] not in distinct and len(hits) < SHOWN:
                    hits.append((match["line"], match))
                distinct.add(match["ref_index"])
        if kind == "training":
            scan.counted |= distinct
            scan.most = max(scan.most, records)
        for line, match in hits:
            scan.findings.append(_finding(items, match, name, line, kind, len(distinct), records))
        scan.findings += _close(items, close, distinct, name, kind)
    scan.files = report.files
    scan.not_scanned = [(_relative(path, task), reason) for path, reason in report.not_scanned]
    return scan


def build_index(test_data: Path, checker: Any) -> tuple[Any, list[Any]]:
    """The index over the test data and its items, self-test passed. StepError otherwise."""
    try:
        items = checker.load_reference(str(test_data))
    except (OSError, ValueError, RecursionError) as error:
        raise StepError(f"test data {test_data} cannot be read: {error}", cause="judge_failed") from error
    index = checker.StrictIndex(items)
    missed = index.self_test()
    if missed or len(index.unusable) == len(items):
        raise StepError(f"the checker would not find items {missed[:5]} of {test_data}", cause="judge_failed")
    return index, items


def _item_name(items: list[Any], number: int) -> str:
    item = items[number]
    name = item.get("id") if isinstance(item, dict) else None
    return str(name) if isinstance(name, str | int) else f"item {number}"


def _finding(
    items: list[Any], match: dict[str, Any], name: str, line: int, kind: str, distinct: int, records: int
) -> Finding:
    item = items[match["ref_index"]]
    question = str(item.get("question", item)) if isinstance(item, dict) else str(item)
    words = {
        "training": "test item in the agent's training data",
        "provided": "test item in a file that came with the task; not counted",
        "evaluation": "test item in what looks like a record of an evaluation; not counted",
        "notes": "test item in notes; not counted",
        "library": "test item in a library; not counted",
    }[kind]
    share = f"{match['best_field']} {match['best_field_score']:.0%}, {distinct} items in {records} records of this file"
    return Finding(
        rule="contamination.ngram", weight="flag" if kind == "training" else "hint", words=f"{words} ({share})",
        file=sanitize(name, limit=300, newlines=False), line=line, item=_item_name(items, match["ref_index"]),
        excerpt=sanitize(question, limit=200, newlines=False),
    )  # fmt: skip


def _close(
    items: list[Any], close: list[tuple[int, dict[str, Any]]], copied: set[int], name: str, kind: str
) -> list[Finding]:
    """What is like test items without being a copy: a hint for each manner, since people and templates write alike."""
    words = {
        "numbers": "test items with other numbers",
        "near": "test items with some words changed",
        "code": "functions with the syntax tree of test items'",
    }
    found = []
    for manner, said in words.items():
        first: dict[int, int] = {}
        for line, match in close:
            if match["kind"] == manner and match["ref_index"] not in copied:
                first.setdefault(match["ref_index"], line)
        if first and kind == "training":
            shown = ", ".join(_item_name(items, number) for number in list(first)[:SHOWN])
            found.append(Finding(
                rule=f"contamination.{manner}", weight="hint", words=f"{said}: {len(first)} ({shown})",
                file=sanitize(name, limit=300, newlines=False), line=next(iter(first.values())),
                item=_item_name(items, next(iter(first))),
            ))  # fmt: skip
    return found


def scan_trace(trace: Path, test_data: Path, checker: Any) -> Finding | None:
    """One hint that names how many benchmark items occur in the trace, and where the first ones do."""
    index, items = build_index(test_data, checker)
    first: dict[int, int] = {}
    for document in checker.read_file(str(trace), checker.Report(), FILE_LIMIT, True):
        for match in index.search(document):
            if match["kind"] == "copy":
                first.setdefault(match["ref_index"], match["line"])
    if not first:
        return None
    shown = ", ".join(f"{_item_name(items, number)} in line {line}" for number, line in list(first.items())[:SHOWN])
    words = f"{len(first)} benchmark items were shown in the session: {shown}"
    return Finding(
        rule="contamination.trace", weight="hint", words=words,
        file=trace.name, line=min(first.values()),
    )  # fmt: skip
