"""A hub on 127.0.0.1 with the real one's interface: repositories invented by a test, large files at a second server.

What it can do besides: gate a repository, cut or stall a transfer, answer 429 or 500 first, change what a file holds,
move a repository to another commit, serve files at addresses of the second server.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LARGE = 200  # bytes from which on a file is in large storage
PAGE = 3  # files of a page


def git_digest(data: bytes) -> str:
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()


@dataclass
class Repository:
    files: dict[str, bytes]
    gated: bool = False
    listed: bool = False  # whether a gated one tells everybody what it holds
    commit: str = "a" * 40
    before: dict[str, dict[str, bytes]] = field(default_factory=dict)  # earlier commit → its files

    def move(self, commit: str, **files: bytes) -> None:
        """Another commit, in which some files hold something else."""
        self.before[self.commit] = self.files
        self.commit, self.files = commit, {**self.files, **files}

    def at(self, revision: str) -> dict[str, bytes] | None:
        """The files of a revision."""
        return self.files if revision in ("main", self.commit) else self.before.get(revision)

    def entry(self, path: str, files: dict[str, bytes] | None = None) -> dict[str, Any]:
        data = (self.files if files is None else files)[path]
        found: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": git_digest(data)}
        if len(data) >= LARGE:
            found["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return found


@dataclass
class FakeHub:
    repos: dict[tuple[str, str], Repository] = field(default_factory=dict)  # ("models", id)
    token: str = "tok-123456"
    cut: dict[str, int] = field(default_factory=dict)  # path → bytes after which one transfer ends
    busy: int = 0  # so many first requests are answered with 429
    spoiled: set[str] = field(default_factory=set)  # paths whose content is another one, once
    ignore_range: bool = False
    stall: dict[str, int] = field(default_factory=dict)  # path → bytes after which one transfer waits for `go`
    go: threading.Event = field(default_factory=threading.Event)
    pages: dict[str, bytes] = field(default_factory=dict)  # path at the second server → its content
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # server, path, range
    strangers: list[str] = field(default_factory=list)  # Authorization headers seen by the second server
    endpoint: str = ""
    storage: str = ""

    def model(self, name: str, files: dict[str, bytes], **more: Any) -> Repository:
        return self.repos.setdefault(("models", name), Repository(files, **more))

    def dataset(self, name: str, files: dict[str, bytes], **more: Any) -> Repository:
        return self.repos.setdefault(("datasets", name), Repository(files, **more))

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.requests]


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        hub, url = self.hub, urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        hub.requests.append(("hub", path, self.headers.get("Range", "")))
        if hub.busy:
            hub.busy -= 1
            self.answer(429, Retry_After="1")
            return
        if match := re.fullmatch(r"/api/(models|datasets)/(.+?)/(revision|tree)/([^/]+)", path):
            repo = self.allowed(match[1], match[2], listing=True)
            if repo is None:
                return
            files = repo.at(match[4])
            if files is None:
                self.answer(404, X_Error_Code="RevisionNotFound")
                return
            if match[3] == "revision":
                commit = repo.commit if match[4] == "main" else match[4]
                info = {"id": match[2], "sha": commit, "gated": "manual" if repo.gated else False}
                self.answer(200, json.dumps(info).encode())
                return
            start = int(urllib.parse.parse_qs(url.query).get("cursor", ["0"])[0])
            names = list(files)
            entries: list[dict[str, Any]] = [repo.entry(name, files) for name in names[start : start + PAGE]]
            if not start:
                entries.append({"type": "directory", "path": "folder", "oid": "0" * 40, "size": 0})
            more = {}
            if start + PAGE < len(names):
                page = f"{hub.endpoint}{url.path}?recursive=true&cursor={start + PAGE}"
                more["Link"] = f'<{page}>; rel="next"'
            self.answer(200, json.dumps(entries).encode(), **more)
            return
        if match := re.fullmatch(r"/(datasets/)?(.+?)/resolve/([0-9a-f]+)/(.+)", path):
            repo = self.allowed("datasets" if match[1] else "models", match[2])
            if repo is None:
                return
            data = (repo.at(match[3]) or {})[match[4]]
            if len(data) >= LARGE:
                where = f"{hub.storage}/{match[1] or 'models/'}{match[2]}/{match[4]}?{match[3]}"
                self.answer(302, Location=urllib.parse.quote(where, safe=":/?"))
            else:
                self.send_file(match[4], data)
            return
        self.answer(404)

    def allowed(self, kind: str, name: str, *, listing: bool = False) -> Repository | None:
        repo = self.hub.repos.get((kind, name))
        if repo is None:
            self.answer(401 if not self.headers.get("Authorization") else 404, X_Error_Code="RepoNotFound")
        elif (
            repo.gated
            and not (listing and repo.listed)
            and self.headers.get("Authorization") != f"Bearer {self.hub.token}"
        ):
            self.answer(403 if self.headers.get("Authorization") else 401, X_Error_Code="GatedRepo")
        else:
            return repo
        return None

    def send_file(self, path: str, data: bytes, etag: str = "") -> None:
        hub = self.hub
        if path in hub.spoiled:
            hub.spoiled.discard(path)
            data = b"\0" * len(data)
        match = re.fullmatch(r"bytes=([0-9]+)-", self.headers.get("Range", ""))
        same = self.headers.get("If-Range", etag) == etag
        start = int(match[1]) if match and same and not hub.ignore_range else 0
        if start and start >= len(data):
            self.answer(416)
            return
        rest = data[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        if etag:
            self.send_header("ETag", etag)
        self.end_headers()
        if self.command == "HEAD":
            return
        if path in hub.stall:
            first = hub.stall.pop(path)
            self.wfile.write(rest[:first])
            self.wfile.flush()
            hub.go.wait(60)
            rest = rest[first:]
        if path in hub.cut:
            self.wfile.write(rest[: hub.cut.pop(path)])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(rest)


class _Storage(_Handler):
    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path, _, commit = urllib.parse.unquote(self.path).partition("?")
        self.hub.requests.append(("storage", path, self.headers.get("Range", "")))
        self.hub.strangers.append(self.headers.get("Authorization", ""))
        if path in self.hub.pages:
            self.send_file(path, self.hub.pages[path], f'"{hashlib.sha256(self.hub.pages[path]).hexdigest()[:16]}"')
            return
        kind, _, rest = path.lstrip("/").partition("/")
        for (of, name), repo in self.hub.repos.items():
            files = repo.at(commit) or {}
            if of == kind and rest.startswith(f"{name}/") and rest.removeprefix(f"{name}/") in files:
                self.send_file(rest.removeprefix(f"{name}/"), files[rest.removeprefix(f"{name}/")])
                return
        self.answer(404)


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    servers = [
        ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (base,), {"hub": hub})) for base in (_Handler, _Storage)
    ]
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    hub.endpoint, hub.storage = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    try:
        yield hub
    finally:
        hub.go.set()
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()
