"""Which files of a data set are its configuration and split: by its card, else by the names (pure functions).

The rule, in this order:

1. `configs` in the front matter of README.md, for the configuration of this name: `data_files` is a pattern, a list of
   patterns, or a list of `split` and `path`.
2. Without an entry there: data files in a folder of the configuration's name or whose own name begins with it; for
   `default`, all data files.
3. Where the card names no split: files with the split as a word of their path; when no file has any such word, all of
   them are `train`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from ptb_tui.core.errors import PtbError
from ptb_tui.supplies.datarows import form_of

CARD = "README.md"
_SPLITS = ("train", "training", "test", "testing", "validation", "valid", "val", "dev", "eval")
_NOT_DATA = ("dataset_infos.json", "config.json", "package.json")


class NoSuchFiles(PtbError):
    """A data set has no files of this name, or of this configuration and split."""

    title = "Not in the data set"


def matches(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern: `*` stays in its folder, `**` crosses folders."""

    def fits(parts: Sequence[str], wanted: Sequence[str]) -> bool:
        if not wanted:
            return not parts
        if wanted[0] == "**":
            return any(fits(parts[skip:], wanted[1:]) for skip in range(len(parts) + 1))
        return bool(parts) and fnmatch.fnmatchcase(parts[0], wanted[0]) and fits(parts[1:], wanted[1:])

    return fits(path.split("/"), pattern.removeprefix("./").split("/"))


def named(paths: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The paths that patterns name, pattern by pattern, each once. NoSuchFiles names the pattern that fits none."""
    every, found = sorted(paths), dict[str, None]()
    for pattern in patterns:
        fitting = [path for path in every if path == pattern or matches(path, pattern)]
        if not fitting:
            raise NoSuchFiles(f"it has no file {pattern}; it has {_some(every)}")
        found.update(dict.fromkeys(fitting))
    return list(found)


def files_of(paths: Iterable[str], card: str, config: str, split: str) -> list[str]:
    """The files of a configuration and split, sorted. NoSuchFiles says what there is."""
    every = sorted(path for path in paths if _is_data(path))
    patterns = _of_card(card, config)
    if patterns is None:
        chosen = every if config == "default" else [path for path in every if _of_config(path, config)]
    else:
        of_split = [pattern for name, pattern in patterns if name == split]
        if not of_split and any(name for name, _ in patterns):
            known = ", ".join(dict.fromkeys(name for name, _ in patterns if name))
            raise NoSuchFiles(f"its card has no split {split!r} of {config!r}, but {known}")
        chosen = [path for path in every if any(matches(path, pattern) for pattern in of_split)]
        if not of_split:
            chosen = [path for path in every if any(matches(path, pattern) for _, pattern in patterns)]
        elif chosen:
            return chosen
    found = [path for path in chosen if _has_word(path, split)]
    if not found and split == "train" and not any(_has_word(path, name) for path in chosen for name in _SPLITS):
        found = chosen
    if not found:
        raise NoSuchFiles(f"it has no files of configuration {config!r}, split {split!r}; it has {_some(every)}")
    if len({form_of(path) for path in found}) > 1:
        raise NoSuchFiles(f"configuration {config!r}, split {split!r} is there in several forms: {_some(found)}")
    return found


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 8} more" if len(paths) > 8 else ""
    return ", ".join(paths[:8]) + more if paths else "no data files"


def _is_data(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(form_of(path)) and not any(part.startswith(".") for part in parts) and parts[-1] not in _NOT_DATA


def _of_config(path: str, config: str) -> bool:
    *folders, name = PurePosixPath(path).parts
    return config in folders or re.match(rf"{re.escape(config)}(?![A-Za-z0-9])", name) is not None


def _has_word(path: str, word: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", path) is not None


def _of_card(card: str, config: str) -> list[tuple[str, str]] | None:
    """(split, pattern) of a configuration; the split is empty where the card names none. None without an entry."""
    configs = front_matter(card).get("configs")
    for entry in configs if isinstance(configs, list) else ():
        if isinstance(entry, dict) and entry.get("config_name") == config and "data_files" in entry:
            folder = str(entry.get("data_dir") or "").strip("/")
            found = _patterns(entry["data_files"])
            return [(split, f"{folder}/{pattern}" if folder else pattern) for split, pattern in found]
    return None


def _patterns(value: Any, split: str = "") -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(split, value)]
    if isinstance(value, list):
        return [pair for entry in value for pair in _patterns(entry, split)]
    if isinstance(value, dict) and "path" in value:
        return _patterns(value["path"], str(value.get("split") or split))
    if isinstance(value, dict):
        return [pair for name, entry in value.items() for pair in _patterns(entry, str(name))]
    return []


def front_matter(card: str) -> dict[str, Any]:
    """What stands between the first two lines `---`, as far as it is nested maps, lists and plain words; a card that
    says it in another way says nothing."""
    head = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)\n---[ \t]*(\r?\n|$)", card, re.DOTALL)
    lines = []
    for line in head[1].splitlines() if head else ():
        if line.strip() and not line.lstrip().startswith("#"):
            lines.append((len(line) - len(line.lstrip(" ")), line.strip()))
    found, _ = _block(lines, 0, lines[0][0] if lines else 0)
    return found if isinstance(found, dict) else {}


def _block(lines: list[tuple[int, str]], at: int, indent: int) -> tuple[Any, int]:
    """One list or map whose entries begin at `indent`, and the line after it."""
    if at < len(lines) and _is_entry(lines[at][1]):
        entries: list[Any] = []
        while at < len(lines) and lines[at][0] == indent and _is_entry(lines[at][1]):
            rest = lines[at][1][1:].lstrip()
            deeper = indent + len(lines[at][1]) - len(rest)
            if not rest:
                value, at = _below(lines, at + 1, indent)
            elif _pair(rest):
                lines[at] = (deeper, rest)
                value, at = _block(lines, at, deeper)
            else:
                value, at = _scalar(rest), at + 1
            entries.append(value)
        return entries, at
    table: dict[str, Any] = {}
    while at < len(lines) and lines[at][0] >= indent and not (lines[at][0] == indent and _is_entry(lines[at][1])):
        pair = _pair(lines[at][1])
        if pair is None or lines[at][0] > indent:  # a text over several lines, which nobody asks for
            at += 1
            continue
        key, rest = pair
        if rest:
            table[key], at = _scalar(rest), at + 1
        else:
            table[key], at = _below(lines, at + 1, indent)
    return table, at


def _below(lines: list[tuple[int, str]], at: int, indent: int) -> tuple[Any, int]:
    if at >= len(lines):
        return "", at
    inner, text = lines[at]
    if inner > indent or (inner == indent and _is_entry(text)):
        return _block(lines, at, inner)
    return "", at


def _is_entry(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _pair(text: str) -> tuple[str, str] | None:
    match = re.match(r"""(["']?)([^"':#\[\]{},]+)\1:(?:\s+(.*))?$""", text)
    return (match[2].strip(), (match[3] or "").strip()) if match else None


def _scalar(text: str) -> Any:
    quoted = re.match(r"""(["'])(.*?)\1\s*(#.*)?$""", text)
    if quoted:
        return quoted[2]
    plain = re.split(r"\s+#", text, maxsplit=1)[0]
    if plain.startswith("[") and plain.endswith("]"):
        return [_scalar(part.strip()) for part in plain[1:-1].split(",") if part.strip()]
    return plain
