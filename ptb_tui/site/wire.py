"""What two ends of a link say to each other, as pure functions of bytes (design §7).

The link begins with noise (a login shell's banner), which is skipped and kept. The near end sends one line
`PTB-HELLO <token> <version>`; the far end answers `PTB-READY <token> <json>`. From then on each line is one JSON frame
of at most 4 MiB:

    near → far   {"id": 7, "op": "ask", "body": {...}}        see `Request`
    far → near   {"id": 7, "kind": "answer", "body": {...}}   see `Reply`

A watch is paid for in advance: the far end sends at most `window` items, and one more for each `more` it is granted.
So one slow reader delays nobody else on the link, and neither end holds more than a window for it.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json, to_json

from ptb_tui.core.action import Action
from ptb_tui.core.errors import PtbError, WireError, from_wire
from ptb_tui.core.query import Answer, Query, answer_type
from ptb_tui.core.text import sanitize

VERSION = 1
MAX_FRAME = 4 << 20  # bytes of one line with its line feed
MAX_NOISE = 64 << 10  # bytes before the greeting
CHUNK = 256 << 10  # bytes of a file in one frame, before base64
WINDOW = 8  # items of a watch under way

_HELLO = re.compile(rb"PTB-HELLO ([A-Za-z0-9_-]{16,64}) ([0-9]{1,9})\r?\n")
_SAME = "install the same ptb-tui at both ends"
_M = TypeVar("_M", bound=BaseModel)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")  # a newer far end may say more


class Ready(_Model):
    """What the far end says about itself in the greeting."""

    wire: int
    version: str
    pid: int
    host: str
    root: str = ""
    content: tuple[str, ...] = ()


class Request(_Model):
    """From the near end. `cancel` and `more` carry the id of the request that they concern."""

    id: int = Field(ge=0, lt=1 << 53)
    op: Literal["ask", "watch", "more", "do", "fetch", "cancel", "ping"]
    body: dict[str, Any] = Field(default_factory=dict)


class Reply(_Model):
    """From the far end. `ask` and `do`: one `answer`. `watch` and `fetch`: `item`s, then `end`. Any: one `error`."""

    id: int = Field(ge=0, lt=1 << 53)
    kind: Literal["answer", "item", "end", "error", "pong"]
    body: dict[str, Any] = Field(default_factory=dict)


class AskBody(_Model):
    """Body of `ask`."""

    query: Query


class WatchBody(_Model):
    """Body of `watch`; `interval` in seconds."""

    query: Query
    interval: float = Field(default=1.0, ge=0, le=3600, allow_inf_nan=False)
    window: int = Field(default=WINDOW, ge=1, le=256)


class MoreBody(_Model):
    """Body of `more`: so many further items may come."""

    items: int = Field(ge=1, le=256)


class DoBody(_Model):
    """Body of `do`."""

    action: Action
    token: str = Field(min_length=1, max_length=256)


class ErrorBody(_Model):
    """Body of `error`: the plain form of `PtbError.to_wire`."""

    type: str
    title: str = ""
    message: str
    hint: str = ""
    cause: str = "unknown"

    def error(self) -> PtbError:
        """The error that the far end raised."""
        return from_wire(self.model_dump())


class DataBody(_Model):
    """Body of an `item` of `fetch`."""

    data: str

    @classmethod
    def of(cls, data: bytes) -> DataBody:
        """Wrap at most `CHUNK` bytes."""
        return cls(data=base64.b64encode(data).decode("ascii"))

    def content(self) -> bytes:
        """The bytes. WireError when they are not base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise WireError(f"file data is not base64: {error}") from error


def body_of(model: type[_M], body: dict[str, Any]) -> _M:
    """Read a body. WireError names what is wrong in it."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise WireError(f"a message is not understood ({words(error)})", hint=_SAME) from error


def answer_of(body: dict[str, Any]) -> Answer:
    """Read the body of an answer or of a watch's item. WireError names what is wrong in it."""
    try:
        return answer_type().validate_python(body)
    except ValidationError as error:
        raise WireError(f"an answer is not understood ({words(error)})", hint=_SAME) from error


def words(error: ValidationError) -> str:
    """A validation error in one line that repeats no values."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc']) or 'frame'}: {first['msg']}"


def plain(model: BaseModel) -> dict[str, Any]:
    """A model as a body. Keeps NaN and infinities, which the model's own JSON form turns into null."""
    return model.model_dump()


def encode(frame: Request | Reply) -> bytes:
    """One line. PtbError over 4 MiB; WireError for what JSON cannot carry (lone surrogates, endless depth)."""
    try:
        line = to_json(plain(frame), inf_nan_mode="constants") + b"\n"
    except ValueError as error:
        raise WireError(f"an answer cannot be sent: {error}") from error
    if len(line) > MAX_FRAME:
        raise PtbError(
            f"the message has {len(line) / (1 << 20):.1f} MiB; at most {MAX_FRAME >> 20} MiB cross a link at once",
            hint="ask for less: name runs, a state or a part of the file",
        )
    return line


def decode(model: type[_M], line: bytes) -> _M:
    """Read one line as a `Request` or a `Reply`. WireError shows how the line begins."""
    try:
        return model.model_validate(from_json(line))
    except ValidationError as error:
        raise WireError(f"a frame is not understood ({words(error)}): {excerpt(line)}") from error
    except ValueError as error:
        raise WireError(f"a frame is not JSON ({error}): {excerpt(line)}") from error


def excerpt(data: bytes, limit: int = 80) -> str:
    """The beginning of foreign bytes, safe to show."""
    return repr(str(sanitize(data[: 4 * limit], limit=limit, newlines=False)))


class Lines:
    """Cuts a byte stream into lines. Any cutting of the stream gives the same lines; constant memory."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now, without line feeds; empty lines are left out.

        WireError for a line that is too long, whether or not its end has come.
        """
        parts = data.split(b"\n")
        lines: list[bytes] = []
        for part in parts[:-1]:
            self._add(part, 1)
            if self._rest:
                lines.append(bytes(self._rest))
                self._rest.clear()
        self._add(parts[-1], 0)
        return lines

    def _add(self, part: bytes, ending: int) -> None:
        if len(self._rest) + len(part) + ending > self._limit:
            raise WireError(f"a line is longer than {self._limit} bytes: {excerpt(bytes(self._rest[:400]) + part)}")
        self._rest += part

    @property
    def rest(self) -> bytes:
        """What came after the last line feed."""
        return bytes(self._rest)


def new_token() -> str:
    """A token that no banner can contain."""
    return secrets.token_hex(16)


def hello(token: str) -> bytes:
    """The near end's first line."""
    return f"PTB-HELLO {token} {VERSION}\n".encode("ascii")


def ready_line(token: str, ready: Ready) -> bytes:
    """The far end's first line."""
    return b"PTB-READY " + token.encode("ascii") + b" " + to_json(plain(ready)) + b"\n"


class AwaitReady:
    """The near end until the greeting is over. `noise` is what came before the far end's first line."""

    def __init__(self, token: str) -> None:
        self._mark = b"PTB-READY " + token.encode("ascii") + b" "
        self._seen = bytearray()
        self._at = -1  # where the greeting begins

    @property
    def noise(self) -> bytes:
        """Everything before the greeting, as far as it has come."""
        return bytes(self._seen if self._at < 0 else self._seen[: self._at])

    def feed(self, data: bytes) -> tuple[Ready, bytes] | None:
        """None until the greeting is whole; then what the far end is, and the bytes that follow.

        WireError for more than 64 KiB of noise, a greeting that is not understood or another version.
        """
        searched = max(0, len(self._seen) - len(self._mark))
        self._seen += data
        if self._at < 0:
            self._at = self._seen.find(self._mark, searched)
        if self._at > MAX_NOISE or (self._at < 0 and len(self._seen) > MAX_NOISE + len(self._mark)):
            raise WireError(f"more than {MAX_NOISE >> 10} KiB before the greeting: {excerpt(bytes(self._seen))}")
        if self._at < 0:
            return None
        end = self._seen.find(b"\n", self._at)
        if end < 0:
            if len(self._seen) - self._at > MAX_NOISE:
                raise WireError("the far end's greeting has no end")
            return None
        ready = decode(Ready, bytes(self._seen[self._at + len(self._mark) : end]))
        if ready.wire != VERSION:
            raise WireError(
                f"the site speaks version {ready.wire} of the protocol (ptb-tui {sanitize(ready.version, limit=40)}), "
                f"this console version {VERSION}",
                hint=_SAME,
            )
        return ready, bytes(self._seen[end + 1 :])


class AwaitHello:
    """The far end until the near end's first line has come; anything before it is skipped."""

    def __init__(self) -> None:
        self._seen = bytearray()

    def feed(self, data: bytes) -> tuple[str, bytes] | None:
        """None until the line is whole; then the token and the bytes that follow. WireError after 64 KiB."""
        self._seen += data
        if match := _HELLO.search(self._seen):
            return match[1].decode("ascii"), bytes(self._seen[match.end() :])
        if len(self._seen) > MAX_NOISE:
            raise WireError(f"no greeting in {MAX_NOISE >> 10} KiB: {excerpt(bytes(self._seen))}")
        return None
