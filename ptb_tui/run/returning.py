"""An exclusive login comes back: what a run may do with the site's only copy, and who has it (design §5, Secrets).

The lock is held by the run, not by a process: supervisors come and go. It is free when that run's agent step is over.
Standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptb_tui.core import files
from ptb_tui.core.errors import PtbError
from ptb_tui.core.layout import Root
from ptb_tui.run import place
from ptb_tui.run.now import steps_now
from ptb_tui.supplies.leases import Held, Lease
from ptb_tui.supplies.logins import MAX_LOGIN, Login, read_login, why_not_newer

if TYPE_CHECKING:
    from ptb_tui.core.credential import CredentialUse
    from ptb_tui.supplies.credentials import Located

NOTE = "login.json"  # in the scratch: what was given to this run, without a token
DONE = "login.done"  # how it came back, for whoever asks again
FLAG = "credential_not_returned"


def owner(root: Root, run_id: int) -> dict[str, Any]:
    """How a run signs a lock."""
    return {"root": str(root.path), "run": run_id}


def is_mine(held: Held, root: Root, run_id: int) -> bool:
    """Whether this run holds the lock."""
    return not held.done and held.owner.get("run") == run_id and held.owner.get("root") == str(root.path)


def over(held: Held) -> bool:
    """Whether the run that holds the lock is known to need it no longer. A root that cannot be read is no such word."""
    root, run_id = held.owner.get("root"), held.owner.get("run")
    if not isinstance(root, str) or not isinstance(run_id, int) or not Root(Path(root)).ptb.is_dir():
        return False
    where = Root(Path(root))
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
    return f"run {held.owner.get('run', '?')} of {held.owner.get('root', '?')} since {held.owner.get('t', '?')}"


def note(
    scratch: Path, use: CredentialUse, located: Located, login: Login, root: Root, run_id: int, stem: Path
) -> None:
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
    login, state = Path(str(said["login"])), Lease(Path(str(said["state"])))
    root, run_id = Root(Path(str(said["root"]))), said["run"]
    if (before := files.read_object(scratch / DONE)) is not None or not is_mine(state.look(), root, run_id):
        return before or {}
    why = ""
    try:
        old = read_login(files.read_bytes(login, MAX_LOGIN))
        new = read_login(_from_home(scratch / "home", str(said["file"])))
        why = why_not_newer(old, new)
        if not why and new is not None and old is not None:
            files.replace(state.stem.with_name(f"{state.stem.name}.before"), old.data, mode=0o600)
            files.replace(login, new.data, mode=0o600)
    except OSError as error:
        why = f"{login} cannot be written: {error.strerror}"
    facts = {} if why == "same" else {FLAG: f"{said['name']}: {why}"} if why else {"credential_returned": said["name"]}
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
