"""The little of the hub's interface that caching needs, on the standard library: a site needs no hub library.

Files are fetched in pieces that can be gone on with after an interruption, and compared with the digest that the hub
announced. The token goes to the hub's own host alone, not to where it redirects.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ptb_tui.core.errors import PtbError
from ptb_tui.supplies.hub import Repo

ENDPOINT = "https://huggingface.co"
ATTEMPTS = 5
MAX_ANSWER = 64 << 20
MAX_PAGES = 10_000
_PIECE = 1 << 20
BROKEN = (urllib.error.URLError, http.client.HTTPException, socket.timeout, ConnectionError, TimeoutError)


class HubError(PtbError):
    """The hub does not give something; `hint` says what to do."""

    title = "The hub refused"


class HubUnreachable(HubError):
    """No answer at all."""

    title = "The hub cannot be reached"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a commit. `etag` names it in the cache: SHA-256 of a file in large storage, else git's digest."""

    path: str
    size: int
    etag: str
    large: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """All files of one commit. A gated repository often lists them to everybody and gives them to few."""

    commit: str
    files: tuple[RemoteFile, ...]
    gated: bool = False

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        """The token is a header that redirects drop; only the same host gets it again."""
        made = super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
        token = req.unredirected_hdrs.get("Authorization")
        if made is not None and token and _origin(newurl) == _origin(req.full_url):
            made.add_unredirected_header("Authorization", token)
        return made


def _origin(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


class Hub:
    """One hub, as one account. `pause` waits between attempts."""

    def __init__(
        self,
        endpoint: str = "",
        token: str = "",
        *,
        timeout: float = 60.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.endpoint = (endpoint or ENDPOINT).rstrip("/")
        self._token, self._timeout, self._pause = token, timeout, pause
        self._opener = urllib.request.build_opener(_Redirects())

    def listing(self, repo: Repo, revision: str = "main") -> Listing:
        """The commit a revision stands for, and its files. HubError with what to do."""
        base = f"{self.endpoint}/api/{repo.kind}s/{urllib.parse.quote(repo.id)}"
        info, _ = self._json(repo, f"{base}/revision/{urllib.parse.quote(revision, safe='')}")
        commit = str(info.get("sha", "")) if isinstance(info, dict) else ""
        if not re.fullmatch(r"[0-9a-f]{7,64}", commit):
            raise HubError(f"{repo}: the hub names no commit of {revision}")
        found: list[RemoteFile] = []
        url = f"{base}/tree/{commit}?recursive=true"
        for _ in range(MAX_PAGES):
            page, url = self._json(repo, url)
            found.extend(_remote_files(repo, page))
            if not url:
                return Listing(commit, tuple(found), gated=bool(info.get("gated")))
        raise HubError(f"{repo}: the list of its files does not end")

    def fetch(self, repo: Repo, commit: str, file: RemoteFile, target: Path, got: Callable[[int], None]) -> None:
        """A file of a commit as `target`, whole or not at all.

        What is there of it lies in `<target>.ptb-part` and is gone on with. `got` is told how many bytes more (or, with
        a negative number, fewer) there are. HubError after `ATTEMPTS`, or when the content is not what was announced.
        """
        part = target.with_name(f"{target.name}.ptb-part")
        prefix = f"{self.endpoint}/datasets" if repo.kind == "dataset" else self.endpoint
        url = f"{prefix}/{urllib.parse.quote(repo.id)}/resolve/{commit}/{urllib.parse.quote(file.path)}"
        failed = ""
        for attempt in range(ATTEMPTS):
            if failed:
                self._pause(min(60.0, 2.0**attempt))
            try:
                self._append(repo, url, part, file.size, got)
            except BROKEN as error:
                failed = reason_of(error)
                continue
            if part.stat().st_size < file.size:
                failed = "the transfer ended early"
                continue
            if digest_of(part, file.large) == file.etag:
                os.replace(part, target)
                return
            got(-part.stat().st_size)
            part.unlink()
            failed = "its content is not what the hub announced"
        raise HubError(f"{repo}: {file.path}: {failed}", hint="run it again; what is there is kept")

    def _append(self, repo: Repo, url: str, part: Path, size: int, got: Callable[[int], None]) -> None:
        have = part.stat().st_size if part.exists() else 0
        if have > size:
            got(-have)
            part.unlink()
            have = 0
        if have == size and have:
            return
        headers = {"Range": f"bytes={have}-"} if have else {}
        with self._open(repo, url, headers) as answer, open(part, "ab") as file:
            if have and answer.status != 206:  # it begins again
                got(-have)
                file.truncate(0)
            while piece := answer.read(_PIECE):
                file.write(piece)
                got(len(piece))
            file.flush()
            os.fsync(file.fileno())

    def _json(self, repo: Repo, url: str) -> tuple[Any, str]:
        """An answer and the address of the next page, if there is one."""
        failed = ""
        for attempt in range(ATTEMPTS):
            if failed:
                self._pause(min(60.0, 2.0**attempt))
            try:
                with self._open(repo, url, {}) as answer:
                    body = answer.read(MAX_ANSWER + 1)
                    following = _next(answer.headers.get("Link", ""))
                if following and not following.startswith(f"{self.endpoint}/"):
                    raise HubError(f"{repo}: the hub sends us elsewhere for the list of its files")
                return json.loads(body), following
            except BROKEN as error:
                failed = reason_of(error)
            except ValueError:
                failed = "its answer is not JSON"
        raise HubUnreachable(f"{self.endpoint}: {failed}", hint="the network, a proxy, or HF_ENDPOINT")

    @contextlib.contextmanager
    def _open(self, repo: Repo, url: str, headers: dict[str, str]) -> Iterator[http.client.HTTPResponse]:
        request = urllib.request.Request(url, headers={"User-Agent": "ptb-tui", **headers})
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 429 or error.code >= 500:
                    wait = error.headers.get("Retry-After", "")
                    if wait.isdigit():
                        self._pause(min(120.0, float(wait)))
                    raise urllib.error.URLError(f"it answered {error.code}") from error
                raise self._refusal(repo, error) from error

    def _page(self, repo: Repo) -> str:
        return f"{self.endpoint}/{'datasets/' if repo.kind == 'dataset' else ''}{repo.id}"

    def terms(self, repo: Repo) -> str:
        """What a person does about a gated repository."""
        if not self._token:
            names = "HF_TOKEN=… (or MY_HF_TOKEN=…)"
            return f"accept its terms at {self._page(repo)}, then put {names} of that account into .env"
        return f"accept its terms at {self._page(repo)} with the account of the token (HF_TOKEN or MY_HF_TOKEN in .env)"

    def _refusal(self, repo: Repo, error: urllib.error.HTTPError) -> HubError:
        code = error.headers.get("X-Error-Code", "")
        page = self._page(repo)
        if code in ("RevisionNotFound", "EntryNotFound"):
            what = "this revision" if code == "RevisionNotFound" else "this file"
            return HubError(f"{repo} has not {what}", hint=f"{page}; it was there when it was written down")
        if code == "GatedRepo" or error.code == 403:
            return HubError(f"{repo} is gated", hint=self.terms(repo))
        if error.code in (401, 404):
            hint = "" if self._token else "; a private one needs HF_TOKEN in .env"
            return HubError(f"{repo} does not exist on the hub, or this account may not see it", hint=f"{page}{hint}")
        return HubError(f"{repo}: the hub answered {error.code}", hint=page)


def _remote_files(repo: Repo, page: Any) -> Iterator[RemoteFile]:
    for entry in page if isinstance(page, list) else ():
        if not isinstance(entry, dict) or entry.get("type") != "file":
            continue
        large = entry.get("lfs")
        path, source = str(entry.get("path", "")), large if isinstance(large, dict) else entry
        size, etag = source.get("size"), str(source.get("oid", ""))
        parts = PurePosixPath(path).parts
        safe = path and str(PurePosixPath(path)) == path and not path.startswith("/") and ".." not in parts
        if not safe or "\0" in path or not isinstance(size, int) or not re.fullmatch(r"[0-9a-f]{40,64}", etag):
            raise HubError(f"{repo}: the hub names a file that cannot be: {path[:200]!r}")
        yield RemoteFile(path, size, etag, large=isinstance(large, dict))


def _next(link: str) -> str:
    match = re.search(r'<([^>]+)>\s*;\s*rel="next"', link)
    return match[1] if match else ""


def digest_of(path: Path, large: bool) -> str:
    """The name that the hub gives a file's content: SHA-256 in large storage, else git's digest."""
    found = hashlib.sha256() if large else hashlib.sha1(f"blob {path.stat().st_size}\0".encode())
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


def reason_of(error: Exception) -> str:
    """What broke, in words."""
    reason = getattr(error, "reason", None)
    return str(reason if reason is not None else error) or type(error).__name__
