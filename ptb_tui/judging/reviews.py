"""Decisions of people about a run: one immutable file each, the newest of its kind counts (design §5, case A23).

    .ptb/reviews/<utc>-<operator>-<hex>.json   {"v", "kind", "t", "operator", "reason", …what the kind needs}

Kinds are `verdict` (what a judge's verdict shall be) and those of other rooms (`void`, `pin`, `undo`, …). The order is
that of the names; a new file always sorts behind those that its writer saw, whatever the clocks say.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ptb_tui.core import clock
from ptb_tui.core.errors import StorageError
from ptb_tui.core.files import create, dump, read_bytes
from ptb_tui.core.text import sanitize

FOLDER = ".ptb/reviews"
MAX_REVIEWS = 1000  # of one run; a person does not make more
MAX_REASON = 4000  # characters
_LIMIT = 1 << 20
_STAMP = re.compile(r"([0-9]{8}T[0-9]{6})(?:\.([0-9]{3}))?Z-")
_FORM = "%Y%m%dT%H%M%S"


@dataclass(frozen=True, slots=True)
class Review:
    """One decision as read. `body` is the file's object; texts of it are untrusted."""

    name: str
    path: Path
    body: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What was decided about; empty when the file does not say."""
        kind = self.body.get("kind")
        return kind if isinstance(kind, str) else ""

    def text(self, name: str, limit: int = 300) -> str:
        """A field as safe text in one line; empty when it is not a text."""
        value = self.body.get(name)
        return sanitize(value, limit=limit, newlines=False) if isinstance(value, str) else ""


def _names(folder: Path) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(name for name in names if name.endswith(".json") and not name.startswith("."))


def read_reviews(folders: Iterable[Path]) -> tuple[list[Review], list[str]]:
    """(all decisions of several folders, oldest first; files that cannot be understood, in words). Total."""
    found: list[Review] = []
    problems: list[str] = []
    named = sorted((name, folder) for folder in folders for name in _names(folder))
    if len(named) > MAX_REVIEWS:
        problems.append(f"{len(named)} reviews; the newest {MAX_REVIEWS} are read")
    for name, folder in named[-MAX_REVIEWS:]:
        try:
            body = json.loads(read_bytes(folder / name, _LIMIT) or b"")
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            found.append(Review(name, folder / name, body))
        else:
            problems.append(f"review {sanitize(name, limit=80, newlines=False)} cannot be understood")
    return found, problems


def newest(reviews: Iterable[Review], kind: str) -> Review | None:
    """The decision of a kind that counts."""
    last = None
    for review in reviews:
        if review.kind == kind:
            last = review
    return last


def _moment(folders: Iterable[Path], now: datetime) -> datetime:
    """Now, or a millisecond after the newest file that is there."""
    for name in sorted((name for folder in folders for name in _names(folder)), reverse=True):
        if match := _STAMP.match(name):
            try:
                last = datetime.strptime(match[1], _FORM).replace(tzinfo=UTC)
                return max(now, last + timedelta(milliseconds=int(match[2] or 999) + 1))
            except (ValueError, OverflowError):
                continue
    return now


def write_review(
    folder: Path, kind: str, operator: str, reason: str, body: Mapping[str, Any], beside: Iterable[Path] = ()
) -> Review:
    """Write a decision; `body` adds what the kind needs, `beside` are further folders of decisions about the same run.
    StorageError when it cannot be written."""
    moment = _moment((folder, *beside), datetime.now(UTC))
    who = re.sub(r"[^A-Za-z0-9_]", "_", operator)[:40] or "unknown"
    stamp = f"{moment.strftime(_FORM)}.{moment.microsecond // 1000:03d}Z"
    record = {"v": 1, "kind": kind, "t": clock.utc_text(), "operator": operator, "reason": reason[:MAX_REASON], **body}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            path = folder / f"{stamp}-{who}-{uuid.uuid4().hex[:8]}.json"
            if create(path, dump(record)):
                return Review(path.name, path, record)
    except OSError as error:
        raise StorageError(f"a review cannot be written to {folder}: {error.strerror}") from error
