"""An exclusive login comes back: what a run may do with the site's only copy, and who has it (design §5, Secrets).

The lock is held by the run, not by a process: supervisors come and go. It is free when that run's agent step is over.
Standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptb_tui.core import files
from ptb_tui.core.errors import PtbError
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.run import place
from ptb_tui.run.now import steps_now
from ptb_tui.supplies.credentials import before_of
from ptb_tui.supplies.leases import Held, Lease
from ptb_tui.supplies.logins import MAX_LOGIN, read_login, why_not_newer

if TYPE_CHECKING:
    from ptb_tui.core.credential import CredentialUse
    from ptb_tui.supplies.credentials import Located

NOTE = "login.json"  # in the scratch: what was given to this run, without a token
DONE = "login.done"  # how it came back, for whoever asks again
FLAG = "credential_not_returned"


def owner(root: Root, run_id: int) -> dict[str, Any]:
    """How a run signs a lock. `created` tells it from one of the same number in another root of the same path."""
    spec = _spec(root, run_id)
    folder = f"{spec['method']}/{spec['run']}" if "method" in spec and "run" in spec else ""
    return {"root": str(root.path), "run": run_id, "folder": folder, "created": str(spec.get("created") or "")}


def _spec(root: Root, run_id: int, folder: str = "") -> dict[str, Any]:
    """What a run was submitted with; empty when it is not seen here. `folder` is where it is when it has ended."""
    try:
        run = place.find(root, run_id)
    except PtbError:
        run = RunFiles(root.path / folder / ".ptb")
    return files.read_object(run.spec) or {}


def _there(held: Held, root: Root, run_id: int) -> bool:
    """Whether the root that is seen here is the one in which the run that holds the lock is known: homes are shared by
    machines whose results lie each on a disk of its own, at the same path."""
    if held.owner.get("host") == socket.gethostname():
        return True
    created, folder = held.owner.get("created"), str(held.owner.get("folder") or "")
    return bool(created) and _spec(root, run_id, folder).get("created") == created


def is_mine(held: Held, root: Root, run_id: int) -> bool:
    """Whether this run holds the lock."""
    said = held.owner.get("run") == run_id and held.owner.get("root") == str(root.path)
    return not held.done and said and _there(held, root, run_id)


def over(held: Held) -> bool:
    """Whether the run that holds the lock is known to need it no longer. A root that cannot be read is no such word,
    nor is one of another machine; `ptb-tui credentials release` is."""
    root, run_id = held.owner.get("root"), held.owner.get("run")
    if not isinstance(root, str) or not isinstance(run_id, int) or not Root(Path(root)).ptb.is_dir():
        return False
    where = Root(Path(root))
    if not _there(held, where, run_id):
        return False
    try:
        steps = steps_now(where, run_id, place.find(where, run_id))
    except PtbError:
        return True  # neither queued nor under way
    agents = [step for step in steps if step.name.kind == "agent"]
    return bool(agents) and all(step.over for step in agents)


def free_for(stem: Path, root: Root, run_id: int) -> bool:
    """Whether a run could take the lock now."""
    held = Lease(stem).look()
    return held.free or is_mine(held, root, run_id) or over(held)


def holder_words(held: Held) -> str:
    """Who has it, for people."""
    host, since = held.owner.get("host", "?"), held.owner.get("t", "?")
    return f"run {held.owner.get('run', '?')} of {held.owner.get('root', '?')} on {host} since {since}"


def note(scratch: Path, use: CredentialUse, located: Located, root: Root, run_id: int, stem: Path) -> None:
    """Write down what was given, so that the harvest can take it back, whoever does it."""
    record = {
        "v": 1,
        "name": use.name,
        "file": use.file,
        "login": str(located.path),
        "root": str(root.path),
        "run": run_id,
        "state": str(stem),
    }
    files.replace(scratch / NOTE, files.dump(record), mode=0o600)


def take_back(scratch: Path) -> dict[str, Any]:
    """Take the login back from the sandbox's home and free it. Returns facts of the step; may be done again. OSError.

    The sandbox can write anything there: only a login that names the same account and is newer replaces the site's.
    """
    said = files.read_object(scratch / NOTE)
    if said is None:
        return {}
    try:
        login, state = Path(str(said["login"])), Lease(Path(str(said["state"])))
        name, file = str(said["name"]), str(said["file"])
        root, run_id = Root(Path(str(said["root"]))), int(said["run"])
    except (KeyError, TypeError, ValueError) as error:
        return {FLAG: f"{scratch / NOTE} was written by another version: {error}"}
    if (before := files.read_object(scratch / DONE)) is not None or not is_mine(state.look(), root, run_id):
        return before or {}
    why = ""
    try:
        old = read_login(files.read_bytes(login, MAX_LOGIN))
        new = read_login(_from_home(scratch / "home", file))
        why = why_not_newer(old, new)
        if not why and new is not None and old is not None:
            files.replace(before_of(state.stem), old.data, mode=0o600)
            files.replace(login, new.data, mode=0o600)
    except OSError as error:
        why = f"{login} cannot be written: {error.strerror}"
    facts = {} if why == "same" else {FLAG: f"{name}: {why}"} if why else {"credential_returned": name}
    files.replace(scratch / DONE, files.dump(facts))
    state.release_for(lambda held: is_mine(held, root, run_id))
    return facts


def _from_home(home: Path, name: str) -> bytes | None:
    """A file below the agent's home, bounded, with no link followed in any part of its path."""
    parts, fd = name.split("/"), -1
    try:
        fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = inner
        leaf = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return None
    finally:
        if fd >= 0:
            os.close(fd)
    with contextlib.suppress(OSError), os.fdopen(leaf, "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            data = file.read(MAX_LOGIN + 1)
            return data if len(data) <= MAX_LOGIN else None
    return None
