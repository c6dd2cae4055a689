"""CLIs that a vendor's shell script installs: run once, in an empty home that becomes part of the store's tree."""

from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from ptb_tui.core.errors import PtbError
from ptb_tui.core.text import sanitize
from ptb_tui.supplies import npm, trees
from ptb_tui.supplies.commands import run

FETCH_S = 60.0
INSTALL_S = 1800.0
MAX_SCRIPT = 4 << 20
_LEFT_OUT = (".cache", ".npm", "tmp")


def install(address: str, program: str, work: Path, tree: Path) -> Path:
    """Run the script with `<work>/home` as its home, keep that as `<tree>/home`, and return the program in it.

    The script sees the operator's environment without keys. Files directly in the home are the start-up files of
    shells, which name the place where the script ran; they are left out. PtbError.
    """
    home, temporary = work / "home", work / "script-tmp"
    home.mkdir()
    temporary.mkdir()
    script = work / "install.sh"
    script.write_bytes(_fetch(address))
    env = {name: value for name, value in npm.environment().items() if not name.startswith("XDG_")}
    env |= {"HOME": str(home), "TMPDIR": str(temporary), "SHELL": "/bin/sh", "CI": "1"}
    status, said = run(["bash", str(script)], cwd=home, env=env, timeout=INSTALL_S)
    if status != 0:
        told = sanitize(" · ".join(said.strip().splitlines()[-4:]), limit=600, newlines=False)
        raise PtbError(f"the installer {address} ended with status {status}: {told}")
    for entry in list(os.scandir(home)):
        if entry.is_file(follow_symlinks=False):
            os.unlink(entry.path)
        elif entry.name in _LEFT_OUT:
            trees.remove(Path(entry.path))
    trees.make_links_relative(home)
    found = Path(os.path.realpath(home / program))
    top = Path(os.path.realpath(home))
    if top not in found.parents or not found.is_file():
        raise PtbError(f"the installer {address} left no program {program}")
    shutil.move(home, tree / "home")
    return tree / "home" / found.relative_to(top)


def _fetch(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=FETCH_S) as answer:  # proxies as the environment says
            data: bytes = answer.read(MAX_SCRIPT + 1)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise PtbError(f"the installer {address} cannot be fetched: {error}") from error
    if len(data) > MAX_SCRIPT or not data.strip():
        raise PtbError(f"the installer {address} is empty or larger than {MAX_SCRIPT >> 20} MiB")
    return data
