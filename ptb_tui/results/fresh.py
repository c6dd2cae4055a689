"""Whether tables that were written before are still what would be written now, told without computing them again.

`_ptb/cache/collect.json` keeps, for one question, the answer, what it was made from, and stamps of the files; it may
be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from ptb_tui.core import files
from ptb_tui.core.layout import Root
from ptb_tui.results.index import cache_folder
from ptb_tui.results.regular import read_regular
from ptb_tui.results.store import RunStore

_LIMIT = 64 << 20


def digest(question: Mapping[str, Any], states: Iterable[str]) -> str:
    """Of a question and the states of all results roots; empty when one of them cannot be told."""
    found = list(states)
    if not all(found):
        return ""
    return hashlib.sha256(to_json([question, found])).hexdigest()


def states(stores: Iterable[RunStore]) -> list[str]:
    """The states of results roots (`RunStore.state`); stops at the first that has none."""
    found = []
    for store in stores:
        found.append(store.state())
        if not found[-1]:
            break
    return found


def _stamps(paths: Iterable[Path]) -> list[list[Any]]:
    found = []
    for path in paths:
        info = os.lstat(path)
        found.append([str(path), info.st_mtime_ns, info.st_size])
    return found


def recall(root: Root, key: str) -> dict[str, Any] | None:
    """The answer kept under this key, if all files it tells of are as they were written."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, OSError):
        kept = from_json(read_regular(cache_folder(root) / "collect.json", _LIMIT) or b"{}")
        if key and kept.get("key") == key:
            named = kept["files"]
            if _stamps(Path(name) for name, _, _ in named) == named:
                answer = kept["answer"]
                return answer if isinstance(answer, dict) else None
    return None


def remember(root: Root, key: str, answer: Mapping[str, Any], paths: Iterable[Path]) -> None:
    """Keep an answer; a cache that cannot be written costs time alone."""
    if key:
        with contextlib.suppress(OSError, ValueError):
            path = cache_folder(root) / "collect.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            body = {"key": key, "files": _stamps(paths), "answer": answer}
            files.replace(path, to_json(body), durable=False)
