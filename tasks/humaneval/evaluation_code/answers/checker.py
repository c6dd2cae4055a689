"""Runs the tests of one problem against an answer that runs elsewhere. The program around it comes on standard input.

Exit status: 0 the answer is right · 1 it is wrong · 3 the check itself cannot be done. "served" is printed as soon as
the server has taken the connection: from then on everything that goes wrong is the answer's fault.
"""

import json
import resource
import socket
import sys
from typing import Any, Dict

import wire

RIGHT, WRONG, HARNESS = 0, 1, 3
CONNECT_S = 20.0
_MEMORY = 4 << 30


class AnswerFailed(Exception):
    """The answer raised, died or sent no literal."""


class HarnessFailed(BaseException):
    """The tests cannot be carried out; no test may catch it as an ordinary error."""


class Proxy:
    """Stands for the model's function in the tests."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function where it is and return a plain value."""
        try:
            sent = wire.literal(args, simplify=False), wire.literal(kwargs, simplify=False)
            same = wire.value_of(sent[0]) == args and wire.value_of(sent[1]) == kwargs
        except (wire.NotPlain, wire.Broken, RecursionError) as error:
            raise HarnessFailed("an argument of a test cannot be sent: {}".format(error)) from error
        if not same:
            raise HarnessFailed("an argument of a test changes on its way")
        reply = exchange(self._connection, {"type": "call", "args": sent[0], "kwargs": sent[1]})
        if reply.get("type") != "value":
            raise AnswerFailed("the answer raised {}".format(str(reply.get("kind"))[:80]))
        try:
            return wire.value_of(reply.get("value"))
        except wire.Broken as error:
            raise AnswerFailed(str(error)) from error


def exchange(connection: socket.socket, message: Dict[str, Any]) -> Dict[str, Any]:
    """Send a message and return the reply. AnswerFailed when none comes."""
    try:
        wire.send(connection, message)
        reply = wire.receive(connection)
    except (OSError, wire.Broken, MemoryError) as error:
        raise AnswerFailed(str(error)) from error
    if reply is None:
        raise AnswerFailed("the answer's process has ended")
    return reply


def connect(path: str) -> socket.socket:
    """A connection that the server has taken. HarnessFailed."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(CONNECT_S)
    try:
        connection.connect(path)
        hello = wire.receive(connection)
    except (OSError, wire.Broken) as error:
        raise HarnessFailed("the answer server cannot be reached: {}".format(error)) from error
    if hello is None or hello.get("type") != "hello":
        raise HarnessFailed("the answer server has closed the connection")
    connection.settimeout(None)
    return connection


def tests(problem: Dict[str, Any], proxy: Proxy) -> Any:
    """The problem's `check`, with the proxy under the function's name for tests that use it. HarnessFailed."""
    names: Dict[str, Any] = {"__name__": "tests"}
    try:
        exec(compile(problem["prompt"], "prompt.py", "exec"), names)
        exec(compile(problem["test"], "test.py", "exec"), names)
        names[problem["entry_point"]] = proxy
        return names["check"]
    except Exception as error:
        raise HarnessFailed("the problem's own code fails: {!r}".format(error)) from error


def check(problem: Dict[str, Any]) -> int:
    """Check one answer; returns the exit status."""
    try:
        connection = connect(problem["socket"])
        proxy = Proxy(connection)
        run = tests(problem, proxy)
        print("served", flush=True)
        load = {"type": "load", "code": problem["code"], "entry_point": problem["entry_point"]}
        if exchange(connection, load).get("type") != "loaded":
            return WRONG
        run(proxy)
    except HarnessFailed as error:
        print(error, file=sys.stderr)
        return HARNESS
    except Exception as error:  # a test that fails, in whatever way
        print("{}: {}".format(type(error).__name__, str(error)[:500]), file=sys.stderr)
        return WRONG
    return RIGHT


def main(payload: str) -> int:
    """Check the answer described by a JSON object: socket, prompt, test, entry_point, code."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard), hard))
    return check(json.loads(payload))
