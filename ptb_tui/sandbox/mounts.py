"""Binds of a request, checked. Links an agent may have left are never followed, on either side.

A runtime makes a missing mount point with the operator's rights: through a planted link it would make it on the
host, and a linked source would show whatever it points at.
"""

from __future__ import annotations

import os
from pathlib import Path

from ptb_tui.sandbox.base import HOME, Bind, Request, refuse

_OWN = ("/", "/proc", "/dev", "/sys", "/etc", "/usr", "/home", HOME, "/tmp", "/run")
_OWN_BELOW = ("/proc/", "/dev/", "/sys/", "/run/ptb")


def bound(request: Request) -> list[str]:
    """The binds as arguments of bubblewrap, in the order given. StepError as `checked`."""
    words: list[str] = []
    for bind in checked(request):
        words += ["--bind" if bind.writable else "--ro-bind", str(bind.source), bind.target]
    return words


def checked(request: Request) -> tuple[Bind, ...]:
    """The binds of a request. StepError(cause="sandbox") for a source that is absent or a link, and for links on the
    way to a source inside the home or to a target.
    """
    mounts = [(HOME, request.home)] + ([("/tmp", request.tmp)] if request.tmp is not None else [])
    for bind in request.binds:
        target = _target(bind)
        if not bind.source.is_absolute() or not os.path.lexists(bind.source):
            raise refuse(f"to show {target} inside, {bind.source} would have to exist")
        if bind.source.is_symlink():
            raise refuse(f"{bind.source} is a link; a bind names the real place")
        inside = request.home in bind.source.parents
        if inside and _crosses_link(request.home, bind.source.relative_to(request.home)):
            raise refuse(f"{bind.source} goes through a link inside the home")
        over = [(len(place), place, source) for place, source in mounts if target.startswith(f"{place}/")]
        if over:
            _, place, source = max(over, key=lambda found: found[0])
            if _crosses_link(source, Path(target[len(place) + 1 :])):
                raise refuse(f"the place for {target} goes through a link in {source}")
        mounts.append((target, bind.source))
    return request.binds


def _target(bind: Bind) -> str:
    target = bind.target
    if not target.startswith("/") or os.path.normpath(target) != target or target.startswith("//"):
        raise refuse(f"{target!r} is not a plain absolute path to show {bind.source} at")
    if target in _OWN or target.startswith(_OWN_BELOW):
        raise refuse(f"{target} belongs to the sandbox itself")
    return target


def _crosses_link(top: Path, below: Path) -> bool:
    path = top
    for part in below.parts:
        path = path / part
        if path.is_symlink() or part == "..":
            return True
    return False
