"""The site's cache of the hub as a step sees it: everything readable, everything of its own writable (H §1.8).

The original lays a FUSE overlay over HF_HOME. Here `hf_cache` in the step's home is a tree of real folders whose files
are links into a read-only bind of the cache: a library finds what is cached, and whatever it writes (a new file, a
newer commit, a lock) goes to scratch and ends with it. No kernel feature and no helper process is needed. The one
difference: a cached file itself cannot be changed in place, only be replaced.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from ptb_tui.sandbox.base import Bind

TARGET = "/opt/ptb/hf"
PARTS = ("hub", "datasets")  # the login beside them is nobody's matter
_LOCKS = ".locks"
_SKIPPED = (".lock", ".incomplete", ".ptb-part")
_REFS = "refs"  # rewritten in place when a commit moves, so they are copied
_SMALL = 4096


@dataclass(slots=True)
class View:
    """What was laid out: what to bind, how many files there are, and what is not shown."""

    binds: list[Bind] = field(default_factory=list)
    files: int = 0
    left_out: list[str] = field(default_factory=list)

    @property
    def notes(self) -> tuple[str, ...]:
        """For the record."""
        if not self.left_out:
            return ()
        first = ", ".join(self.left_out[:3])
        return (f"{len(self.left_out)} entries of the hub's cache lead out of it and are not shown: {first}",)


def lay_out(cache: Path, into: Path, *, isolated: bool = True) -> View:
    """Fill `into`, the step's HF_HOME, with links to what `cache`, the site's HF_HOME, holds.

    Without isolation the links lead to the cache itself, which the step could then write, as it could write anything.
    """
    view = View()
    into.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source = Path(os.path.realpath(cache / part))
        if not source.is_dir():
            continue
        target = f"{TARGET}/{part}" if isolated else str(source)
        if isolated:
            view.binds.append(Bind(source, target))
        _folder(str(source), str(into / part), target, part, view)
    return view


def _folder(source: str, into: str, target: str, shown: str, view: View) -> None:
    """One folder; plain strings, because a cache may hold a hundred thousand files."""
    os.makedirs(into, exist_ok=True)
    try:
        with os.scandir(source) as found:
            entries = list(found)
    except FileNotFoundError:
        return
    except OSError:
        view.left_out.append(shown)
        return
    refs = f"/{_REFS}/" in f"{shown}/"
    for entry in entries:
        leaf = entry.name
        if leaf == _LOCKS or leaf.endswith(_SKIPPED):
            continue
        place, name = f"{into}/{leaf}", f"{shown}/{leaf}"
        if entry.is_dir(follow_symlinks=False):
            _folder(entry.path, place, f"{target}/{leaf}", name, view)
            continue
        try:
            if entry.is_symlink():
                words = os.readlink(entry.path)
                if not _stays(name, words):
                    view.left_out.append(name)
                    continue
                os.symlink(words, place)
            elif not entry.is_file():
                continue
            elif refs and entry.stat().st_size <= _SMALL:
                shutil.copyfile(entry.path, place)
            else:
                os.symlink(f"{target}/{leaf}", place)
        except FileNotFoundError:  # `data cache` works beside us: it was renamed since
            continue
        view.files += 1


def _stays(name: str, words: str) -> bool:
    """Whether a link of the cache leads to a place in the same part of it."""
    if os.path.isabs(words):
        return False
    end = os.path.normpath(os.path.join(os.path.dirname(name), words))
    return end.split("/")[0] == name.split("/")[0]
