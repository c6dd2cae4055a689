"""One worker at a time on a thing in a folder that other machines may share: a claim is a file, created exclusively.

A claim of a process of this boot that is gone is taken over; one of another machine is believed. It is refused at once
and leaves nothing in a folder that people look at; who has to wait, or to pass over a silent holder, takes a lease
(`supplies.leases`). Standard library alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

from ptb_tui.core import clock, files
from ptb_tui.core.errors import NotAllowed, StorageError


def holder(path: Path) -> str:
    """Who holds a claim, in words; empty when nobody does."""
    raw = files.read_object(path)
    if raw is None:
        return "somebody" if path.exists() else ""
    if clock.gone(raw):
        return ""
    process = clock.process_from(raw.get("process"))
    where = raw.get("host") or "an unknown machine"
    return f"process {process.pid if process else '?'} on {where}, since {raw.get('t', '?')}"


def _clear(path: Path) -> None:
    """Remove the claim of a dead holder. Only processes of its own machine see that it is dead, so a lock of this
    machine is enough for nobody to remove what another has put there since."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        found = files.read_object(path)
        if found is not None and clock.gone(found):
            path.unlink()
    finally:
        os.close(folder)


@contextlib.contextmanager
def claimed(path: Path, what: str) -> Iterator[None]:
    """Hold the claim meanwhile. NotAllowed when somebody else does, StorageError when the folder cannot be written."""
    record = {
        "v": 1,
        "t": clock.utc_text(),
        "host": socket.gethostname(),
        "process": clock.this_process().to_json(),
        "nonce": uuid.uuid4().hex,
    }
    text = files.dump(record)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(3):
            if files.create(path, text):
                break
            if words := holder(path):
                hint = f"wait for it; if that machine is gone for good, remove {path}"
                raise NotAllowed(f"{what} is being worked on by {words}", hint=hint)
            _clear(path)
        else:
            raise NotAllowed(f"{what} is being worked on by somebody", hint="try again")
    except OSError as error:
        raise StorageError(f"{path.parent} cannot be written: {error.strerror}", hint="repair its rights") from error
    try:
        yield
    finally:
        if files.read_object(path) == record:
            path.unlink(missing_ok=True)
