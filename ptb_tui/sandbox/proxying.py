"""The little HTTP a proxy needs: reading a request's head from a hostile client, and writing it on.

`parse` is pure and total: any bytes give a `Head` or `Bad`.
"""

from __future__ import annotations

import asyncio
import base64
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from ptb_tui.core.errors import ConfigError
from ptb_tui.sandbox.egress import Upstream, normal, split

HEAD_BYTES = 65536
HEAD_S = 30.0
_METHOD = re.compile(rb"[A-Z][A-Z-]{0,31}\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00\r\n]*)\Z")
_TARGET = re.compile(rb"[!-~\x80-\xff]+\Z")
_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authorization",
        b"proxy-authenticate",
        b"te",
        b"host",
        b"upgrade",
    )
)


class Bad(Exception):
    """A request that is not understood, with the status it gets."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Head:
    """A request: host in normal spelling, port, and for plain HTTP the path, the fields to pass on, and the length of
    the body, None when the request does not say it in one way.
    """

    method: str
    host: str
    port: int
    tunnel: bool
    path: bytes = b""
    fields: tuple[bytes, ...] = ()
    length: int | None = 0

    @property
    def authority(self) -> str:
        """host:port, with brackets around IPv6."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def forwarded(self, upstream: Upstream | None) -> bytes:
        """A plain request as the next hop gets it: one request a connection, Host as in the URI."""
        host = self.authority.removesuffix(":80").encode()
        target = b"http://" + host + self.path if upstream else self.path
        lines = [self.method.encode() + b" " + target + b" HTTP/1.1", b"Host: " + host, *self.fields]
        if upstream and upstream.authorization:
            lines.append(b"Proxy-Authorization: " + upstream.authorization.encode())
        return b"\r\n".join((*lines, b"Connection: close", b"", b""))

    def connect_words(self, upstream: Upstream) -> bytes:
        """The CONNECT request for the next proxy."""
        lines = [f"CONNECT {self.authority} HTTP/1.1", f"Host: {self.authority}"]
        if upstream.authorization:
            lines.append(f"Proxy-Authorization: {upstream.authorization}")
        return "\r\n".join((*lines, "", "")).encode()


async def read_head(reader: asyncio.StreamReader) -> bytes | None:
    """The bytes up to the empty line; None when the peer ended without a word. Bad, or OSError of the stream."""
    try:
        async with asyncio.timeout(HEAD_S):
            return await reader.readuntil(b"\r\n\r\n")
    except TimeoutError as error:
        raise Bad("the request's head did not come in time", HTTPStatus.REQUEST_TIMEOUT) from error
    except asyncio.LimitOverrunError as error:
        raise Bad("the request's head is too long", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from error
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise Bad("the request ended within its head") from error


def parse(raw: bytes) -> Head:
    """Read a head that ends with an empty line. Raises Bad."""
    lines = raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
    words = lines[0].split(b" ")
    if len(words) != 3 or words[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise Bad("not an HTTP/1 request")
    method, target = words[0], words[1]
    if not _METHOD.match(method) or not _TARGET.match(target):
        raise Bad("not an HTTP request")
    fields = []
    for line in lines[1:]:
        found = _FIELD.match(line)
        if found is None:
            raise Bad("a header is malformed")
        fields.append((found[1].lower(), line))
    text = target.decode("latin-1")
    if method == b"CONNECT":
        place = split(text)
        if place is None:
            raise Bad("not a host and port to connect to")
        return Head("CONNECT", *place, tunnel=True)
    if not text.lower().startswith("http://"):
        raise Bad("only CONNECT and http:// addresses go through this gateway")
    authority, path = re.match(r"([^/?#]*)(.*)\Z", text[7:], re.S).groups()  # type: ignore[union-attr]
    if "@" in authority:
        raise Bad("an address with a name and password is not passed on")
    place = split(authority.removesuffix(":"), 80)
    if place is None:
        raise Bad("not a host in the address")
    named = {name for name, line in fields if name == b"connection" for name in _listed(line)}
    kept = tuple(line for name, line in fields if name not in _HOP and name not in named)
    path = path.partition("#")[0]
    whole = (path if path.startswith("/") else f"/{path}").encode("latin-1")
    return Head(method.decode(), *place, tunnel=False, path=whole, fields=kept, length=_length(fields))


def _length(fields: list[tuple[bytes, bytes]]) -> int | None:
    if any(name == b"transfer-encoding" for name, _ in fields):
        return None
    said = {line.partition(b":")[2].strip() for name, line in fields if name == b"content-length"}
    if not said:
        return 0
    one = said.pop()
    return int(one) if not said and one.isdigit() and len(one) < 16 else None


def _listed(line: bytes) -> list[bytes]:
    """The header names a Connection field lists; never those that frame the body."""
    names = [word.strip().lower() for word in line.partition(b":")[2].split(b",")]
    return [name for name in names if name not in (b"content-length", b"transfer-encoding")]


def upstream(url: str) -> Upstream:
    """Read a proxy's address as curl does: `[http://][user:password@]host[:port]`. ConfigError for other kinds."""
    parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
    try:
        host, port = normal(parts.hostname or ""), parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError("the host's proxy variable is not an http:// or https:// address")
    words = ""
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        words = "Basic " + base64.b64encode(pair.encode()).decode()
    return Upstream(host, port or (443 if parts.scheme == "https" else 80), parts.scheme == "https", words)


def site_proxies(environ: Mapping[str, str]) -> tuple[Upstream | None, Upstream | None, list[str]]:
    """The site's proxies for CONNECT and for plain requests, and NO_PROXY. ConfigError as `upstream`."""

    def value(*names: str) -> str:
        return next((environ[name] for name in names if environ.get(name)), "")

    secure = value("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
    plain = value("HTTP_PROXY", "http_proxy") or secure
    ways = [upstream(url) if url else None for url in (secure, plain)]
    return ways[0], ways[1], value("NO_PROXY", "no_proxy").split(",")
