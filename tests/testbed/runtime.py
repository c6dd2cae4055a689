"""The interpreter that runs us and what is installed for it, relocated to /opt/runtime for hosts and containers.

The hosts have another Python, no packages and no network, and a normal user cannot read this machine's /root. So a
copy is made: `base/` is what the standard library needs of `sys.base_prefix`, the rest a virtual environment above it.
Files that everybody may read become hard links where that is possible; nothing is ever changed through a link.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

from tests.testbed.place import BASE, REPOSITORY, ROOTFS, put, remove_tree, say, sh

INSIDE = Path("/opt/runtime")
PRODUCT = Path("/opt/ptb")  # the repository's folders, bound read-only
PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"
FOLDERS = ("agents", "backends", "benchmarks", "containers", "judges", "ptb_tui", "sweeps", "tasks", "tests")
# Hundreds of megabytes that nothing imports at run time.
STDLIB_SKIP = frozenset({"site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo", "ensurepip"})
SITE_SKIP = frozenset({"pip", "mypy", "mypyc", "torch/include", "torch/share"})


def site() -> Path:
    """The folder of the packages installed for the interpreter that runs us."""
    return Path(sysconfig.get_paths()["purelib"])


def digest() -> str:
    """Changes with the interpreter and with every installation of a package."""
    records = sorted((path.parent.name, path.stat().st_mtime_ns) for path in site().glob("*.dist-info/RECORD"))
    text = json.dumps([4, sys.version, sys.base_prefix, str(site()), str(REPOSITORY), records])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def folder() -> Path:
    """Where the runtime of the present installation is, or will be."""
    return BASE / f"runtime-{digest()}"


def build() -> float:
    """Makes the runtime if it is not there, and returns the seconds. Needs the built root file system (patchelf)."""
    target = folder()
    if target.exists():
        return 0.0
    start = time.monotonic()
    part = BASE / "runtime.part"
    remove_tree(part)
    _base(Path(sys.base_prefix), part / "base")
    library = part / "lib" / PYTHON / "site-packages"
    _copy(site(), library, SITE_SKIP)
    for path in library.glob("*.pth"):
        text = path.read_text()
        if str(REPOSITORY) in text:
            path.unlink()  # a hard link: the original must stay as it is
            put(path, text.replace(str(REPOSITORY), str(PRODUCT)))
    _programs(Path(sys.prefix), part / "bin")
    version = sys.version.split()[0]
    put(part / "pyvenv.cfg", f"home = {INSIDE}/base/bin\ninclude-system-site-packages = false\nversion = {version}\n")
    part.rename(target)
    took = round(time.monotonic() - start, 1)
    say(f"runtime built in {took} s: {target}")
    return took


def outdated() -> list[Path]:
    """Runtimes of earlier installations. A host that is up may still use one."""
    return [path for path in BASE.glob("runtime*") if path != folder()]


def _base(prefix: Path, target: Path) -> None:
    _copy(prefix / "lib" / PYTHON, target / "lib" / PYTHON, STDLIB_SKIP)
    for library in (prefix / "lib").glob(f"lib{PYTHON}*.so*"):
        _place(library, target / "lib" / library.name, linked=False)
    program = target / "bin" / PYTHON
    program.parent.mkdir(parents=True)
    shutil.copyfile(Path(sys.executable).resolve(), program)
    program.chmod(0o755)
    # Where the interpreter was built with a shared library, it looks for it in the old place.
    inside = ROOTFS / "mnt" / PYTHON
    try:
        shutil.copy(program, inside)
        sh("chroot", ROOTFS, "patchelf", "--set-rpath", "$ORIGIN/../lib", f"/mnt/{PYTHON}")
        shutil.copy(inside, program)
    finally:
        inside.unlink(missing_ok=True)


def _programs(prefix: Path, target: Path) -> None:
    """The scripts of the installed packages, with the relocated interpreter in their first line."""
    target.mkdir(parents=True)
    (target / "python").symlink_to(f"../base/bin/{PYTHON}")
    for name in ("python3", PYTHON):
        (target / name).symlink_to("python")
    old = f"#!{prefix}/bin/python".encode()
    for path in sorted((prefix / "bin").iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        with open(path, "rb") as file:
            first = file.readline(200)
            if first.startswith(old):
                put(target / path.name, f"#!{INSIDE}/bin/python\n".encode() + file.read(), 0o755)


def _copy(source: Path, target: Path, skip: frozenset[str]) -> None:
    """A tree that everybody may read; `skip` are paths relative to it."""
    place: Callable[[Path, Path], None] = _place
    for name, folders, files in os.walk(source):
        here = Path(name).relative_to(source)
        folders[:] = [one for one in folders if (here / one).as_posix() not in skip]
        (target / here).mkdir(parents=True, exist_ok=True)
        for one in [*files, *(one for one in folders if (Path(name) / one).is_symlink())]:
            place(Path(name) / one, target / here / one)


def _place(source: Path, target: Path, linked: bool = True) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    found = source.lstat()
    if stat.S_ISLNK(found.st_mode):
        aim = os.readlink(source)
        if not os.path.isabs(aim):
            target.symlink_to(aim)
        elif source.is_file():
            _place(source.resolve(), target, linked)
        return
    if not stat.S_ISREG(found.st_mode):
        return
    wanted = found.st_mode | 0o444 | (0o111 if found.st_mode & 0o100 else 0)
    if linked and wanted == found.st_mode:
        try:
            os.link(source, target)
            return
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                raise
    shutil.copyfile(source, target)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))  # compiled modules carry their source's time
    target.chmod(stat.S_IMODE(wanted))
