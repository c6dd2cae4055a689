"""Which Apptainer or Singularity is installed, and whether it has what a sandbox needs. Standard library alone."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

_VERSION = re.compile(r"^(apptainer|singularity)(?:-ce|-pro)?\s+version\s+(\S+)", re.M | re.I)
_ASK_S = 60.0
_SEARCH = ("/usr/local/bin", "/usr/bin", "/opt/apptainer/bin")
_NEEDED = (
    *("--cleanenv", "--contain", "--no-mount", "--pid", "--ipc", "--net", "--network"),
    *("--home", "--pwd", "--bind", "--overlay", "--nv"),
)


@dataclass(frozen=True, slots=True)
class Runtime:
    """One executable. `flavour` is what it says it is: Debian's `singularity` is a link to apptainer."""

    path: str
    flavour: str
    version: str
    lacks: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """Before the name of a variable, it passes that variable to the inside."""
        return "SINGULARITYENV_" if self.flavour == "singularity" else "APPTAINERENV_"

    @property
    def encoded(self) -> bool:
        """Whether values would be evaluated by a shell inside: only apptainer can be told not to."""
        return self.flavour == "singularity"


def find(name: str) -> str:
    """The path of the executable, from PATH and the usual places; empty when it is not installed."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), *_SEARCH))) or ""


def outer_environment() -> dict[str, str]:
    """The environment in which the runtime itself works: nothing of the operator's reaches it but PATH and HOME."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/bin", "/bin"))
    return {"PATH": path, "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}


def call(words: Sequence[str], seconds: float) -> tuple[int, str, str]:
    """Let the runtime work: (status, output, errors); status 1 and why when it cannot be started or takes too long."""
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            cwd="/",
            env=outer_environment(),
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, "", f"cannot be started: {error}"
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def _said(*words: str) -> str:
    _, out, errors = call(words, _ASK_S)
    return f"{out}\n{errors}"


@functools.cache
def look(path: str) -> Runtime | str:
    """What is installed at this path, or why it is of no use, in one line."""
    said = _said(path, "--version")
    found = _VERSION.search(said)
    if found is None:
        words = " ".join(said.split())[:200]
        return f"{path} does not say that it is apptainer or singularity: {words}"
    flavour, version = found[1].lower(), found[2]
    needed = (*_NEEDED, "--no-eval") if flavour == "apptainer" else _NEEDED
    known = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", _said(path, "exec", "--help")))
    lacks = tuple(flag for flag in needed if flag not in known)
    return Runtime(path, flavour, version, lacks)


def usable(name: str, path: str) -> Runtime | str:
    """The runtime a sandbox of this name can use, or why there is none, in one line."""
    if not path:
        return f"{name} is not installed" + (" (package `apptainer`)" if name == "apptainer" else "")
    found = look(path)
    if isinstance(found, str):
        return found
    if found.lacks:
        return f"{path} is {found.flavour} {found.version}, which lacks {', '.join(found.lacks)}: install a newer one"
    if os.geteuid() == 0:
        return f"{name} is not used by root, whose containers keep root's rights: work as a normal user"
    return found
