"""Files of sources, kept below a folder of the site and gone on with after an interruption (E §1.3).

<folder>/hub/<data set>/<commit>/<path>      from the hub, compared with the digest that it announced
<folder>/url/<digest of the address>/<name>  from an address
<name>.ptb-part                              what is there of an unfinished one
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ptb_tui.core import files
from ptb_tui.core.errors import PtbError
from ptb_tui.supplies.hub import Repo
from ptb_tui.supplies.hubapi import ATTEMPTS, BROKEN, reason_of

MAX_SOURCE = 2 << 30  # bytes of one file
PART = ".ptb-part"
_PIECE = 1 << 20
Got = Callable[[int], None]
_T = TypeVar("_T")


class DownloadError(PtbError):
    """An address does not give a file; `hint` says what to do."""

    title = "Cannot be downloaded"


class _Beyond(ConnectionError):
    """There is more of a file here than the address has."""


def hub_path(folder: Path, repo: Repo, commit: str, path: str) -> Path:
    """Where a file of a commit is kept."""
    return folder / "hub" / repo.folder / commit / path


def url_path(folder: Path, url: str) -> Path:
    """Where the file of an address is kept."""
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "file"
    return folder / "url" / hashlib.sha256(url.encode()).hexdigest()[:16] / safe[:120]


def size_of_part(target: Path) -> int:
    """Bytes that are there of an unfinished file."""
    part = target.with_name(target.name + PART)
    return part.stat().st_size if part.is_file() else 0


@dataclass(frozen=True, slots=True)
class Offer:
    """What an address says about its file. `size` is None when it does not say; `mark` tells one content from the
    next, empty when it does not.
    """

    size: int | None
    mark: str = ""


class Web:
    """Files at addresses. `pause` waits between attempts."""

    def __init__(self, *, timeout: float = 60.0, pause: Callable[[float], None] = time.sleep) -> None:
        self._timeout, self._pause = timeout, pause

    def offer(self, url: str) -> Offer:
        """Ask for size and mark. DownloadError when the address has no such file."""

        def ask() -> Offer:
            with self._open(url, {}, method="HEAD") as answer:
                return _offer(answer)

        return self._tried(url, ask)

    def fetch(self, url: str, target: Path, got: Got) -> None:
        """The file of an address as `target`, whole or not at all; goes on with what is there of the same content.

        `got` is told how many bytes more (or, with a negative number, fewer) there are. DownloadError.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        self._tried(url, lambda: self._append(url, target, got))

    def _tried(self, url: str, work: Callable[[], _T]) -> _T:
        failed = ""
        for attempt in range(ATTEMPTS):
            if failed:
                self._pause(min(60.0, 2.0**attempt))
            try:
                return work()
            except BROKEN as error:
                failed = reason_of(error)
        raise DownloadError(f"{url}: {failed}", hint="the network or a proxy; run it again, what is there is kept")

    def _append(self, url: str, target: Path, got: Got) -> None:
        part, note = target.with_name(target.name + PART), target.with_name(f"{target.name}{PART}-of")
        have = part.stat().st_size if part.exists() else 0
        mark = (files.read_bytes(note, 4096) or b"").decode("utf-8", "replace")
        if have and not mark:  # nobody can say that it is the same content
            got(-have)
            part.unlink()
            have = 0
        headers = {"Range": f"bytes={have}-", "If-Range": mark} if have else {}
        try:
            opened = self._open(url, headers)
        except _Beyond:
            got(-have)
            part.unlink(missing_ok=True)
            raise
        with opened as answer:
            offer = _offer(answer)
            if have and answer.status != 206:  # another content, or an address that gives no pieces
                got(-have)
                part.unlink()
                have = 0
            if offer.size is not None and have + offer.size > MAX_SOURCE:
                raise DownloadError(f"{url}: {have + offer.size:,} bytes, more than {MAX_SOURCE:,}")
            files.replace(note, offer.mark)
            with open(part, "ab", buffering=0) as file:
                while piece := answer.read1(_PIECE):  # what has come, so that little is lost with the process
                    file.write(piece)
                    have += len(piece)
                    got(len(piece))
                    if have > MAX_SOURCE:
                        raise DownloadError(f"{url}: more than {MAX_SOURCE:,} bytes")
                os.fsync(file.fileno())
            if answer.length:  # what was announced and did not come
                raise ConnectionError("the transfer ended early")
        os.replace(part, target)
        note.unlink(missing_ok=True)

    def _open(self, url: str, headers: dict[str, str], method: str = "GET") -> http.client.HTTPResponse:
        request = urllib.request.Request(url, headers={"User-Agent": "ptb-tui", **headers}, method=method)
        try:
            answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 429 or error.code >= 500:
                    raise urllib.error.URLError(f"it answered {error.code}") from error
                if error.code == 416:  # what is there is longer than the file
                    raise _Beyond("it has not the piece asked for") from error
                raise DownloadError(f"{url}: it answered {error.code}", hint="see `url` in data.toml") from error
        return answer


def _offer(answer: http.client.HTTPResponse) -> Offer:
    length = answer.headers.get("Content-Length", "")
    etag = answer.headers.get("ETag", "")
    mark = etag if etag and not etag.startswith("W/") else answer.headers.get("Last-Modified", "")
    return Offer(int(length) if length.isdigit() else None, mark)
