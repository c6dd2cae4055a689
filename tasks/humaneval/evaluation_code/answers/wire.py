"""Messages between the checker, which holds the tests, and the server, which runs a model's code (E §1.7.3).

A message is a 4-byte big-endian length and that many bytes of UTF-8 JSON. Values travel as text of Python literals and
are read as literals only, so that each side sees plain built-in values whatever objects the other one has.
"""

import ast
import enum
import json
import math
import socket
import struct
import sys
from typing import Any, Dict, Optional, Tuple

MOST = 64 << 20
_PLAIN: Tuple[Any, ...] = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)

if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)


class NotPlain(Exception):
    """A value that no literal stands for."""


class Broken(Exception):
    """The other side sent something that is no message."""


def send(connection: socket.socket, message: Dict[str, Any]) -> None:
    """Send one message. OSError; Broken when it is too long."""
    data = json.dumps(message).encode("utf-8", "surrogatepass")
    if len(data) > MOST:
        raise Broken("message too long")
    connection.sendall(struct.pack(">I", len(data)) + data)


def _exactly(connection: socket.socket, count: int) -> Optional[bytes]:
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def receive(connection: socket.socket) -> Optional[Dict[str, Any]]:
    """The next message; None when the other side is gone. OSError; Broken."""
    head = _exactly(connection, 4)
    if head is None:
        return None
    (length,) = struct.unpack(">I", head)
    if length > MOST:
        raise Broken("message too long")
    data = _exactly(connection, length)
    if data is None:
        return None
    try:
        message = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise Broken(str(error)) from error
    if not isinstance(message, dict):
        raise Broken("not an object")
    return message


def _float(value: float) -> str:
    if math.isnan(value):
        raise NotPlain("nan")
    return repr(value) if math.isfinite(value) else ("1e999" if value > 0 else "-1e999")


def _simplified(value: Any) -> Any:
    """The plain value behind a member of an enumeration, a numpy scalar or an instance of a subclass."""
    if isinstance(value, enum.Enum):
        return value.value
    kind = type(value)
    if kind.__module__.partition(".")[0] == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    for base in _PLAIN:
        if isinstance(value, base):
            return base(value)
    raise NotPlain(kind.__name__)


def literal(value: Any, simplify: bool = True) -> str:
    """The literal that stands for a value. NotPlain; RecursionError for what contains itself.

    Without `simplify` only values of exactly the built-in types are taken.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes):
        return repr(value)
    if kind is float:
        return _float(value)
    if kind is complex:
        if not (math.isfinite(value.real) and math.isfinite(value.imag)):
            raise NotPlain("complex")
        return repr(value)
    if kind is list:
        return "[" + ", ".join(literal(part, simplify) for part in value) + "]"
    if kind is tuple:
        return "(" + "".join(literal(part, simplify) + ", " for part in value) + ")"
    if kind is dict:
        pairs = ("{}: {}".format(literal(key, simplify), literal(part, simplify)) for key, part in value.items())
        return "{" + ", ".join(pairs) + "}"
    if kind is set or (kind is frozenset and simplify):
        return "{" + ", ".join(literal(part, simplify) for part in value) + "}" if value else "set()"
    if not simplify:
        raise NotPlain(kind.__name__)
    return literal(_simplified(value), simplify)


def value_of(text: Any) -> Any:
    """The value that a literal stands for. Broken for anything else."""
    try:
        return ast.literal_eval(text if isinstance(text, str) else "")
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise Broken("not a literal: {}".format(type(error).__name__)) from error
