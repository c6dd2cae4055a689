"""Work on the site that takes long: building an image, filling the cache of the hub (design §2.2).

It runs in a process of its own, so it outlives the console and the link. `_ptb/steps/<id>/`:

    work.json      what was asked, and by whom; written by whoever starts it
    process.json   the worker's identity; likewise
    log            what the worker prints
    now.json       how far it is; written by the worker, often replaced
    exit.json      how it ended; written by the worker, once
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.core.errors import NotFound, PtbError, StorageError
from ptb_tui.core.layout import Root, allocate_id

LOG_CHUNK = 1 << 16
_TICK_S = 0.5
_START_S = 60.0
_children: list[subprocess.Popen[bytes]] = []  # those of this process, so that they are reaped when they end


@dataclass(frozen=True, slots=True)
class Look:
    """How work stands. `done` of `total` bytes, None where nobody knows; `log` from the offset asked for to `next`."""

    id: int
    kind: str
    subject: str
    state: str  # running | done | failed | lost
    words: str = ""
    done: int | None = None
    total: int | None = None
    log: str = ""
    next: int = 0
    error: Mapping[str, str] | None = None
    started: str = ""


class Report:
    """What a worker says while it works."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._said = folder, 0.0

    def line(self, text: str) -> None:
        """A line of the log."""
        print(text.rstrip("\n"), flush=True)

    def now(self, words: str, done: int | None = None, total: int | None = None, *, force: bool = False) -> None:
        """How far it is; kept at most twice a second. A full disk ends the work, not this."""
        moment = time.monotonic()
        if not force and moment - self._said < _TICK_S:
            return
        self._said = moment
        with contextlib.suppress(OSError):
            files.replace(self._folder / "now.json", files.dump({"words": words, "done": done, "total": total}))


def start(
    root: Root, kind: str, subject: str, request: Mapping[str, Any], command: Sequence[str], env: Mapping[str, str]
) -> tuple[int, bool]:
    """Begin work, or find the same work (kind and subject) that is under way already; its id, and whether it is new.

    `command` starts our program; `request` goes to the worker as it is and must hold no secret.
    """
    for number in reversed(ids(root)):
        found = look(root, number)
        if (found.kind, found.subject) == (kind, subject) and found.state == "running":
            return number, False
    number = allocate_id(root)
    folder = root.own("steps") / str(number)
    folder.mkdir(parents=True)
    record = {"v": 1, "id": number, "kind": kind, "subject": subject, "t": clock.utc_text(), "request": dict(request)}
    files.create(folder / "work.json", files.dump(record))
    with open(folder / "log", "ab") as log:
        _children[:] = [child for child in _children if child.poll() is None]
        child = subprocess.Popen(
            [*command, "work", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, **env, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
    _children.append(child)
    identity = clock.identify(child.pid) or clock.Process(child.pid, 0, clock.boot_id())
    files.create(folder / "process.json", files.dump({"host": socket.gethostname(), "process": identity.to_json()}))
    return number, True


def ids(root: Root) -> list[int]:
    """All work of a root, oldest first; what is just being asked for is not there yet."""
    folder = root.own("steps")
    try:
        return sorted(
            int(name) for name in os.listdir(folder) if name.isdigit() and (folder / name / "work.json").exists()
        )
    except OSError:
        return []


def look(root: Root, number: int, offset: int = 0) -> Look:
    """How one piece of work stands. NotFound when there is none of this id."""
    folder = root.own("steps") / str(number)
    asked = files.read_object(folder / "work.json")
    if asked is None:
        raise NotFound(f"no work {number} in {root.own('steps')}")
    alive = _alive(folder)  # before exit.json is read: who ends in between has written it
    ended = files.read_object(folder / "exit.json")
    now = files.read_object(folder / "now.json") or {}
    text, after = _log(folder / "log", offset)
    state = "running" if alive else "lost"
    words, error = str(now.get("words", "")), None
    if ended is not None:
        state = "done" if ended.get("status") == 0 else "failed"
        words = str(ended.get("words", ""))
        raw = ended.get("error")
        error = {str(key): str(value) for key, value in raw.items()} if isinstance(raw, dict) else None
    done, total = (value if isinstance(value, int) else None for value in (now.get("done"), now.get("total")))
    kind, subject, began = (str(asked.get(key, "")) for key in ("kind", "subject", "t"))
    return Look(number, kind, subject, state, words, done, total, text, after, error, began)


def _alive(folder: Path) -> bool:
    raw = files.read_object(folder / "process.json")
    if raw is None:  # being started, if whoever starts it still lives
        return time.time() - (folder / "work.json").stat().st_mtime < _START_S
    return not clock.gone(raw)


def _log(path: Path, offset: int) -> tuple[str, int]:
    """A piece of the log that ends where a line ends, if one ends in it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return "", offset
    try:
        data = os.pread(fd, LOG_CHUNK, max(0, offset))
    finally:
        os.close(fd)
    cut = data.rfind(b"\n") + 1
    data = data[:cut] if cut else data if len(data) == LOG_CHUNK else b""
    return data.decode("utf-8", "replace"), max(0, offset) + len(data)


Doer = Callable[[Mapping[str, Any], Report], str]
"""Does the work and returns how it went, in words. PtbError with what failed."""


def _doer(kind: str) -> Doer:
    from ptb_tui.run import works

    if kind not in works.DOERS:
        raise NotFound(f"this version knows no work of kind {kind!r}")
    return works.DOERS[kind]


def main(argv: Sequence[str]) -> int:
    """Internal verb `work FOLDER`: do what `work.json` says and write `exit.json`, whatever happens."""
    folder = Path(argv[0])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is begun is taken back
    asked = files.read_object(folder / "work.json") or {}
    ended: dict[str, Any]
    try:
        words = _doer(str(asked.get("kind")))(asked.get("request") or {}, Report(folder))
        ended = {"status": 0, "words": words}
        print(words, flush=True)
    except PtbError as error:
        ended = {"status": 1, "words": error.message, "error": error.to_wire()}
        print(f"{error.message}; {error.hint}" if error.hint else error.message, flush=True)
    except OSError as error:
        refused = StorageError(f"{error.filename or folder}: {error.strerror}")
        ended = {"status": 1, "words": refused.message, "error": refused.to_wire()}
        print(refused.message, flush=True)
    except SystemExit:
        stopped = PtbError("stopped by a signal", hint="ask for it again; what is there is kept")
        ended = {"status": 143, "words": stopped.message, "error": stopped.to_wire()}
    except Exception as error:  # the worker's edge: nobody else would hear of it
        traceback.print_exc()
        found = PtbError(f"the worker failed: {type(error).__name__}: {error}", hint=f"see {folder / 'log'}")
        ended = {"status": 1, "words": found.message, "error": found.to_wire()}
    files.create(folder / "exit.json", files.dump({"v": 1, "t": clock.utc_text(), **ended}))
    sys.stdout.flush()
    return int(ended["status"])
