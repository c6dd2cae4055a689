"""Locks on credentials that also hold on NFS: an exclusively created file with owner and age (local_queue C.8).

A lock is a row of files `NAME.<n>`: the highest number says who holds it, a holder that is done writes `NAME.<n>.done`
beside it. To take it is to create the next number, which one of many succeeds in; nothing that decides is ever
removed, only what is far behind. A holder that is gone is passed over: at once when its process on this machine is
dead, else when its file has not changed for `patience` seconds *of the observer*, so that no clocks are compared.
Standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files

KEPT = 8  # numbers behind the highest that are left lying
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Held:
    """Who holds a lock, or held it last."""

    number: int
    owner: dict[str, Any]
    done: bool

    @property
    def gone(self) -> bool:
        """Whether the holder is a process of this machine and no longer there; False when that cannot be told."""
        return clock.gone(self.owner)

    @property
    def free(self) -> bool:
        """Whether the next one may take it now."""
        return self.done or not self.number or self.gone


def _split(name: str, stem: str) -> tuple[int, bool] | None:
    if not name.startswith(f"{stem}."):
        return None
    number, _, rest = name[len(stem) + 1 :].partition(".")
    if not number.isdigit() or rest not in ("", "done"):
        return None
    return int(number), rest == "done"


@dataclass(slots=True)
class Lease:
    """One lock. `stem` is `<folder>/<NAME>`; the folder is made when it is absent."""

    stem: Path
    mine: int = 0
    _seen: tuple[str, float] = field(default=("", 0.0))

    def look(self) -> Held:
        """Who holds it."""
        found: dict[int, bool] = {}
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.stem.parent):
                if (part := _split(name, self.stem.name)) is not None:
                    found[part[0]] = found.get(part[0], False) or part[1]
        if not found:
            return Held(0, {}, True)
        highest = max(found)
        return Held(highest, files.read_object(self._file(highest), 1 << 16) or {}, found[highest])

    def _file(self, number: int, more: str = "") -> Path:
        return self.stem.with_name(f"{self.stem.name}.{number:06d}{more}")

    def take(self, owner: dict[str, Any], patience: float, free: Callable[[Held], bool] | None = None) -> bool:
        """Take it if nobody holds it. `owner` is written down with host and process; `free` may know better that a
        holder is gone. A holder without a sign of life for `patience` seconds, watched by this object, is passed over.
        """
        held = self.look()
        if not (held.free or (free is not None and free(held)) or self._patient(held, patience)):
            return False
        self.stem.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = held.number + 1
        said = {"host": socket.gethostname(), "t": clock.utc_text(), "nonce": secrets.token_hex(8), **owner}
        if not files.create(self._file(number), files.dump(said), mode=0o600):
            return False
        self.mine = number
        if self.look().number != number:  # we saw an old listing, and others were further on
            self.release()
            return False
        self._clean(number)
        return True

    def _patient(self, held: Held, patience: float) -> bool:
        key = f"{held.number}/{held.owner.get('nonce')}"
        if self._seen[0] != key:
            self._seen = (key, time.monotonic())
        return time.monotonic() - self._seen[1] > patience

    def still(self) -> bool:
        """Whether it is still ours: nobody passed us over."""
        return self.mine > 0 and self.look().number == self.mine

    def release(self) -> None:
        """Give it back."""
        if self.mine:
            with contextlib.suppress(OSError):
                files.create(self._file(self.mine, ".done"), "{}", mode=0o600)
            self.mine = 0

    def release_for(self, check: Callable[[Held], bool]) -> bool:
        """Give it back for a holder that `check` recognises as one's own, whichever process took it."""
        held = self.look()
        if held.done or not check(held):
            return False
        self.mine = held.number
        self.release()
        return True

    def _clean(self, number: int) -> None:
        for name in os.listdir(self.stem.parent):
            part = _split(name, self.stem.name)
            if part is not None and part[0] < number - KEPT:
                with contextlib.suppress(OSError):
                    (self.stem.parent / name).unlink()


@contextlib.contextmanager
def held(stem: Path, patience: float, longest: float) -> Iterator[Lease | None]:
    """Hold a lock while this process works, waiting for it at most `longest` seconds; None when it was not to be had.

    Work under it must end within `patience` seconds, or ask `still()` before it changes anything.
    """
    lease, limit = Lease(stem), time.monotonic() + longest
    owner = {"process": clock.this_process().to_json()}
    while not lease.take(owner, patience):
        if time.monotonic() >= limit:
            yield None
            return
        time.sleep(_PAUSE_S)
    try:
        yield lease
    finally:
        lease.release()
